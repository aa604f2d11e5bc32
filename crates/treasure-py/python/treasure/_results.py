"""Results: the rows of the command line as objects.

Every object gives back its row with `to_dict()`, can be pickled, and compares by its row.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Dict, Generic, List, Optional, SupportsIndex, TypeVar, overload

from . import _html

Row = Dict[str, Any]
T = TypeVar("T", bound="_RowObject")
R = TypeVar("R", bound="Rows")


@dataclass(frozen=True)
class Cost:
    """What a sample cost."""

    #: Sequences run through the denoiser (number of function evaluations).
    nfe: int
    #: Predictions answered from memory.
    nfe_hits: int
    #: Texts scored.
    reward_calls: int
    #: Scores answered from memory.
    reward_cache_hits: int
    #: Texts scored by a screen's cheap reward.
    proxy_calls: int = 0
    #: Scores that a bound on the reward made needless.
    reward_skips: int = 0
    #: Its share of the wall-clock seconds.
    seconds: float = 0.0

    def __str__(self) -> str:
        def cached(count: int) -> str:
            return f" (+{count} cached)" if count else ""

        line = f"{self.nfe} model calls{cached(self.nfe_hits)}"
        line += f", {self.reward_calls} reward calls{cached(self.reward_cache_hits)}"
        if self.proxy_calls:
            line += f", {self.proxy_calls} screen calls"
        return f"{line}, {self.seconds:.2f} s"


class _RowObject:
    """A row of JSON with its fields as attributes."""

    __slots__ = ("_row",)

    def __init__(self, row: Row) -> None:
        self._row = row

    def to_dict(self) -> Row:
        """The row, as the command line prints it under `--json`."""
        return json.loads(json.dumps(self._row))

    def __getitem__(self, field: str) -> Any:
        return self._row[field]

    def __getattr__(self, field: str) -> Any:
        # Fields of the caller's own, carried through from the prompts.
        if field.startswith("_"):
            raise AttributeError(field)
        try:
            return self._row[field]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no field {field!r}") from None

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(self._row))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._row == self._row

    def __hash__(self) -> int:
        return hash(json.dumps(self._row, sort_keys=True))

    def __reduce__(self):
        return (type(self), (self._row,))


class Sample(_RowObject):
    """A finished text with all that is known of it."""

    __slots__ = ("_tree", "_trace")

    def __init__(self, row: Row, tree: Optional[str] = None, trace: Optional[bytes] = None) -> None:
        super().__init__(row)
        self._tree = tree
        self._trace = trace

    @property
    def prompt(self) -> str:
        """The prompt, or a template's text before its first hole."""
        return self._row["prompt"]

    @property
    def text(self) -> str:
        """`prompt` + `continuation`, byte for byte."""
        return self._row["text"]

    @property
    def continuation(self) -> str:
        """What was generated."""
        return self._row["continuation"]

    @property
    def tokens(self) -> List[int]:
        """The generated ids up to the first end of text."""
        return list(self._row["tokens"])

    @property
    def reward(self) -> float:
        """The reward of `text`."""
        return self._row["reward"]

    @property
    def reward_final(self) -> Optional[float]:
        """The reward of the search's own choice at its end, where the answer is the best seen."""
        return self._row["reward_final"]

    @property
    def rewards(self) -> Dict[str, float]:
        """Each part of the reward as written."""
        return dict(self._row["rewards"])

    @property
    def logp(self) -> Optional[float]:
        """log p of the generated tokens, where the search knows it."""
        return self._row["logp"]

    @property
    def cost(self) -> Cost:
        """What it cost."""
        return Cost(**self._row["cost"])

    @property
    def plan(self) -> Dict[str, Any]:
        """Every option after defaults; `generate(**plan)` of the same prompt gives the same text."""
        return dict(self._row["plan"])

    @property
    def method(self) -> str:
        """The method."""
        return self._row["method"]

    @property
    def seed(self) -> int:
        """The seed."""
        return self._row["seed"]

    @property
    def prompt_index(self) -> int:
        """Which prompt of the call, from 0."""
        return self._row["prompt_index"]

    @property
    def sample(self) -> int:
        """Which sample of the prompt, from 0."""
        return self._row["sample"]

    @property
    def stopped(self) -> Optional[str]:
        """Why the search ended before its last mask, if it did."""
        return self._row["stopped"]

    @property
    def cut(self) -> bool:
        """Whether the length ran out, instead of the model's ending the text."""
        return self._row["cut"]

    @property
    def notes(self) -> List[str]:
        """Caps and other notices of the search."""
        return list(self._row["notes"])

    @property
    def held_out(self) -> Optional[Dict[str, Any]]:
        """Scores of the judges that the search did not see."""
        return self._row["held_out"]

    @property
    def tree(self) -> Optional[List[Dict[str, Any]]]:
        """Every node of the search, if the tree was kept: `generate(…, tree=True)`, the default for one text."""
        if self._tree is None:
            return None
        tree = json.loads(self._tree)
        nodes = tree["nodes"]
        for node in nodes:
            if node.get("token") is not None:
                node["text"] = tree["texts"].get(str(node["token"]))
        return nodes

    @property
    def trace(self) -> Optional[bytes]:
        """Every event as JSON Lines, if asked for: `generate(…, trace=True)`."""
        return self._trace

    def __repr__(self) -> str:
        stopped = f", stopped={self.stopped!r}" if self.stopped else ""
        return f"Sample({self.text!r}, reward={self.reward:.4g}, cost='{self.cost}'{stopped})"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return _html.sample(self)

    def __reduce__(self):
        return (Sample, (self._row, self._tree, self._trace))


class Score(_RowObject):
    """A text with its score."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The text."""
        return self._row["text"]

    @property
    def reward(self) -> float:
        """The reward."""
        return self._row["reward"]

    @property
    def rewards(self) -> Dict[str, float]:
        """Each part as written."""
        return dict(self._row["rewards"])

    @property
    def detail(self) -> Dict[str, Any]:
        """What led to it: label probabilities, mean log-likelihood."""
        return dict(self._row["detail"])

    def __float__(self) -> float:
        return self.reward

    def __repr__(self) -> str:
        return f"Score({self.text!r}, reward={self.reward:.6g})"


class Rows(List[T], Generic[T]):
    """A list of results that can become a table."""

    def to_dicts(self) -> List[Row]:
        """The rows."""
        return [row.to_dict() for row in self]

    def to_pandas(self) -> Any:
        """A pandas DataFrame: a row a result, nested fields as columns of their own."""
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame([_flat(row.to_dict()) for row in self])

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self: R, index: slice) -> R: ...
    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return type(self)(found) if isinstance(index, slice) else found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({super().__repr__()})"


class Samples(Rows[Sample]):
    """Finished texts, in the order of prompts and samples."""

    @property
    def texts(self) -> List[str]:
        """The texts."""
        return [sample.text for sample in self]

    def best(self) -> Sample:
        """The text with the highest reward; the first among equals."""
        return max(self, key=lambda sample: sample.reward)

    def _repr_html_(self) -> str:
        return _html.samples(self)


class Scores(Rows[Score]):
    """Scored texts, in order."""

    @property
    def rewards(self) -> List[float]:
        """The numbers alone."""
        return [score.reward for score in self]


def _flat(row: Row) -> Row:
    """A row for a table: costs, held-out scores and parts of the reward as columns."""
    flat: Row = {}
    for field, value in row.items():
        if field == "cost":
            flat.update(value)
        elif field == "rewards":
            if len(value) > 1:
                flat.update({f"reward:{name}": part for name, part in value.items()})
        elif field == "held_out":
            if value:
                flat.update({f"judge:{name}": part for name, part in value["judges"].items()})
                flat["perplexity"] = value["perplexity"]
                flat.update({f"dist{n + 1}": part for n, part in enumerate(value["dist"])})
        elif field == "detail":
            flat.update({k: v for k, v in value.items() if not isinstance(v, (dict, list))})
        elif field != "version":
            flat[field] = value
    return flat


@dataclass(frozen=True)
class Guess:
    """A token and how likely it is."""

    #: Its id.
    id: int
    #: Its text; none without a tokenizer.
    token: Optional[str]
    #: Its log-probability.
    logprob: float


@dataclass(frozen=True)
class Predicted:
    """The likeliest tokens at a mask."""

    #: The position, from 0.
    position: int
    #: The tokens, likeliest first.
    top: List[Guess]

    def to_dict(self) -> Row:
        """The row."""
        return asdict(self)


@dataclass(frozen=True)
class FrameToken:
    """A piece of a text that is forming."""

    #: What it reads as; a mask has no text yet.
    text: str
    #: Whether it is still a mask.
    masked: bool
    #: The probability the model gave it when it was committed, where that is known.
    probability: Optional[float] = None


@dataclass(frozen=True)
class Frame:
    """The text at a step of the search; the last frame is the answer."""

    #: The step, from 1.
    step: int
    #: How many there will be.
    steps: int
    #: Masks left.
    masks_left: int
    #: The whole text, prompt first, each mask as `▒`.
    text: str
    #: The same piece by piece.
    tokens: List[FrameToken]
    #: The best reward of a complete text so far.
    value: Optional[float]
    #: Model calls so far.
    nfe: int
    #: Reward calls so far.
    reward_calls: int
    #: The answer, in the last frame.
    sample: Optional[Sample] = None
    #: The ids of the sequence, none where masked.
    ids: Optional[List[Optional[int]]] = None

    @property
    def reward(self) -> Optional[float]:
        """The best reward of a complete text so far."""
        return self.value

    def to_dict(self) -> Row:
        """The frame as plain data."""
        row = {field: getattr(self, field) for field in self.__dataclass_fields__ if field not in ("sample", "tokens")}
        row["tokens"] = [asdict(token) for token in self.tokens]
        row["sample"] = self.sample.to_dict() if self.sample else None
        return row

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Likelihood:
    """The bound on log p(continuation | context)."""

    #: At most log p, in nats, as estimated.
    logprob: float
    #: The standard error of the estimate.
    standard_error: float
    #: Tokens of the continuation.
    tokens: int
    #: Forward passes it took.
    nfe: int
    #: Whether revealing the surest token again and again writes the continuation.
    greedy: bool


def frame_of(row: Row) -> Frame:
    """A frame from its JSON."""
    tokens = [FrameToken(**token) for token in row["tokens"]]
    return Frame(
        row["step"], row["steps"], row["masks_left"], row["text"], tokens, row["reward"], row["nfe"],
        row["reward_calls"], None, row.get("ids"),
    )


def last_frame(sample: Sample, before: Optional[Frame]) -> Frame:
    """The frame of an answer."""
    steps = before.steps if before else 0
    cost = sample.cost
    tokens = [FrameToken(sample.text, False)]
    return Frame(steps, steps, 0, sample.text, tokens, sample.reward, cost.nfe, cost.reward_calls, sample)


__all__ = [
    "Cost", "Frame", "FrameToken", "Guess", "Likelihood", "Predicted", "Rows", "Sample", "Samples", "Score", "Scores",
]
