"""A model for lm-evaluation-harness: import this module, then name the model `treasure`.

    import lm_eval, treasure.lm_eval

    lm_eval.simple_evaluate(model="treasure", model_args="model=pocket,reward=cola", tasks=["my_task"])

On the command line `python -m treasure.lm_eval --model treasure --tasks …` is the harness's own with the model known.

`generate_until` searches (without a reward the model writes its likeliest text); `loglikelihood` is the bound of the
diffusion, from `nelbo_samples` corruptions, and says whether greedy decoding writes the continuation.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from lm_eval.api.model import LM  # type: ignore[import-untyped]
from lm_eval.api.registry import register_model  # type: ignore[import-untyped]

from ._errors import RequestError
from ._session import Treasure, load

#: A rule that every text meets: what a search without a reward is given.
_ANY = "regex:(?s).*"


@register_model("treasure")
class TreasureLM(LM):
    """A denoiser of treasure, as the harness asks it."""

    def __init__(
        self,
        model: Any = "pocket",
        reward: Optional[Any] = None,
        method: Optional[str] = None,
        nelbo_samples: int = 32,
        length: int = 48,
        seed: int = 0,
        batch_size: Any = None,
        max_batch_size: Any = None,
        device: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.treasure: Treasure = model if isinstance(model, Treasure) else load(str(model))
        self.reward = reward
        self.method = method or ("treasure" if reward is not None else "greedy")
        self.samples = int(nelbo_samples)
        self.length = int(length)
        self.seed = int(seed)
        self.options = options

    def generate_until(self, requests: List[Any], disable_tqdm: bool = False) -> List[str]:
        """Continuations up to the first of the stop texts."""
        answers: List[str] = [""] * len(requests)
        kinds: Dict[Tuple[Any, ...], List[int]] = {}
        for index, request in enumerate(requests):
            _, given = request.args
            stops = given.get("until") or []
            stops = (stops,) if isinstance(stops, str) else tuple(stops)
            kinds.setdefault((stops, int(given.get("max_gen_toks", self.length))), []).append(index)
        for (stops, length), members in kinds.items():
            made = self.treasure.generate(
                [requests[index].args[0] for index in members],
                reward=self.reward if self.reward is not None else _ANY,
                method=self.method, length=length, min_length=1, seed=self.seed, tree=False,
                progress=not disable_tqdm, **self.options,
            )
            for sample in made:
                answers[members[sample.prompt_index]] = _cut(sample.continuation, stops)
        return answers

    def loglikelihood(self, requests: List[Any], disable_tqdm: bool = False) -> List[Tuple[float, bool]]:
        """The bound on log p of each continuation, and whether greedy decoding writes it."""
        found = self.treasure.loglikelihood([request.args for request in requests], samples=self.samples, seed=self.seed)
        return [(one.logprob, one.greedy) for one in found]

    def loglikelihood_rolling(self, requests: List[Any], disable_tqdm: bool = False) -> List[float]:
        """The bound on log p of whole texts."""
        pairs = [("", request.args[0]) for request in requests]
        return [one.logprob for one in self.treasure.loglikelihood(pairs, samples=self.samples, seed=self.seed)]

    def apply_chat_template(self, chat_history: List[Dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The model's own chat template."""
        try:
            return self.treasure._converse(list(chat_history), None)
        except RequestError as error:
            raise RequestError("chat template: this model has none", "leave --apply_chat_template out") from error

    @property
    def tokenizer_name(self) -> str:
        """A name for the harness's cache."""
        return repr(self.treasure)


def _cut(text: str, stops: Tuple[str, ...]) -> str:
    for stop in stops:
        if stop and stop in text:
            text = text[: text.index(stop)]
    return text


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate  # type: ignore[import-untyped]

    cli_evaluate()
