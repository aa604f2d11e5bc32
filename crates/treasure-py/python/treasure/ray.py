"""Many machines: a class for Ray Data's `map_batches`.

    import ray, treasure.ray

    prompts = ray.data.from_items([{"prompt": "The old dog"}, …])
    rows = prompts.map_batches(
        treasure.ray.Generate,
        fn_constructor_kwargs=dict(model="pocket", reward="sentiment=negative"),
        batch_size=16,
        concurrency=8,
    )

A text depends on its prompt, the seed and its number among the samples, never on the batch or the machine: results
equal those of one process, and what a lost actor had not handed over is made again by another one.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ._results import _flat
from ._session import Treasure, load

#: Fields that say where in a call a row stood, which batches make meaningless.
_PLACE = ("prompt_index", "prompt")


class Generate:
    """Generates for batches of prompts: columns in, the same columns and those of the rows out.

    `model` is a name, or a function that makes a `Treasure`, called once in each actor. `column` holds the prompts;
    other columns are given to rewards and carried on. `options` are those of `Treasure.generate`.
    """

    def __init__(
        self, model: Any = "pocket", *, column: str = "prompt", threads: Optional[int] = None, **options: Any
    ) -> None:
        self.model = model
        self.column = column
        self.threads = threads
        self.options = options
        self._treasure: Optional[Treasure] = None

    def __getstate__(self) -> Dict[str, Any]:
        # The weights stay where they are; whoever receives this loads its own.
        return {**self.__dict__, "_treasure": None}

    def _ready(self) -> Treasure:
        if self._treasure is None:
            made = self.model() if callable(self.model) else load(self.model, threads=self.threads)
            self._treasure = made
        return self._treasure

    def __call__(self, batch: Dict[str, Any]) -> Dict[str, List[Any]]:
        columns = {name: _list(values) for name, values in batch.items()}
        count = len(columns[self.column])
        others = [name for name in columns if name != self.column]
        entries = [
            {"prompt": columns[self.column][index], **{name: columns[name][index] for name in others}}
            for index in range(count)
        ]
        made = self._ready().generate(entries, **self.options)
        out: Dict[str, List[Any]] = {self.column: [], **{name: [] for name in others}}
        rows = [_flat(sample.to_dict()) for sample in made]
        names = [name for row in rows for name in row]
        for sample, row in zip(made, rows):
            out[self.column].append(columns[self.column][sample.prompt_index])
            for name in others:
                out[name].append(columns[name][sample.prompt_index])
            for name in dict.fromkeys(names):
                if name not in _PLACE and name not in others and name not in ("plan", "notes"):
                    out.setdefault(name, []).append(row.get(name))
        return out


def _list(values: Any) -> List[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)
