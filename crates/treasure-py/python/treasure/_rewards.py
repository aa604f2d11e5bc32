"""Rewards: specifications, Python functions, and arithmetic on both."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from ._calls import Leaf
from ._errors import RequestError, RewardError

Rewarding = Union[str, "Reward", Callable[..., Any]]


class Reward:
    """What a search aims for. Rewards are added, subtracted and multiplied by numbers like numbers.

    >>> 0.5 * reward("cola") + reward("sentiment=positive")
    Reward('0.5*cola + sentiment=positive')
    """

    __slots__ = ("_node",)

    def __init__(self, node: Tuple[Any, ...]) -> None:
        self._node = node

    def written(self) -> Tuple[str, List[Leaf]]:
        """The specification, and the functions behind its `own:NAME`s."""
        names: Dict[str, Leaf] = {}
        text = _write(self._node, names, inside=False)
        return text, list(names.values())

    def __add__(self, other: Any) -> "Reward":
        if isinstance(other, (int, float)) and other == 0:
            return self  # sum([a, b]) begins with 0
        other = _other(other)
        return NotImplemented if other is None else Reward(("sum", self._node, other._node))

    def __radd__(self, other: Any) -> "Reward":
        if isinstance(other, (int, float)) and other == 0:
            return self
        other = _other(other)
        return NotImplemented if other is None else Reward(("sum", other._node, self._node))

    def __mul__(self, weight: Any) -> "Reward":
        if not isinstance(weight, (int, float)) or isinstance(weight, bool):
            return NotImplemented
        if not math.isfinite(weight):
            raise RequestError(f"weight: expected a finite number, got {weight}")
        return Reward(("weighted", float(weight), self._node))

    __rmul__ = __mul__

    def __truediv__(self, number: Any) -> "Reward":
        if not isinstance(number, (int, float)) or number == 0:
            return NotImplemented
        return self * (1 / number)

    def __neg__(self) -> "Reward":
        return self * -1.0

    def __sub__(self, other: Any) -> "Reward":
        other = _other(other)
        return NotImplemented if other is None else self + -other

    def __rsub__(self, other: Any) -> "Reward":
        other = _other(other)
        return NotImplemented if other is None else other + -self

    def __repr__(self) -> str:
        return f"Reward({self.written()[0]!r})"

    def __reduce__(self):
        return (Reward, (self._node,))


def _other(value: Any) -> Optional[Reward]:
    if isinstance(value, (bool, int, float)):
        raise RequestError(
            f"reward: expected a reward to add, got the number {value}", "a constant changes no search: leave it out"
        )
    return reward(value) if isinstance(value, (str, Reward)) or callable(value) else None


def _write(node: Tuple[Any, ...], names: Dict[str, Leaf], inside: bool) -> str:
    kind = node[0]
    if kind == "spec":
        # A sum that a user wrote keeps together when it is weighted or added to.
        return f"({node[1]})" if inside and " + " in node[1] else node[1]
    if kind == "own":
        leaf, name, number = node[1], node[1].name, 1
        while names.setdefault(name, leaf).function is not leaf.function:
            number += 1
            name = f"{leaf.name}_{number}"
        return f"own:{name}"
    if kind == "sum":
        text = " + ".join(_write(part, names, inside=False) for part in node[1:])
        return f"({text})" if inside else text
    if kind == "weighted":
        text = f"{node[1]!r}*{_write(node[2], names, inside=True)}"
        return f"({text})" if inside else text
    parts = [_write(part, names, inside=False) for part in node[1:] if isinstance(part, tuple)]
    parts += [repr(part) for part in node[1:] if not isinstance(part, tuple)]
    return f"{kind}({', '.join(parts)})"


def reward(what: Rewarding, *, name: Optional[str] = None, batch_size: int = 256) -> Reward:
    """A reward: a specification such as `"sentiment=positive"`, or a function of TRL's signature.

    `name` is what rows call a function, `batch_size` the most texts it is given at once.
    """
    if isinstance(what, Reward):
        return what
    if isinstance(what, str):
        return Reward(("spec", what.strip()))
    return Reward(("own", Leaf(what, name, batch_size)))


def _combined(kind: str, rewards: Sequence[Rewarding]) -> Reward:
    if len(rewards) < 2:
        raise RequestError(f"{kind}: expected at least two rewards, got {len(rewards)}")
    return Reward((kind, *(reward(one)._node for one in rewards)))


def min(*rewards: Rewarding) -> Reward:
    """The lowest of several rewards."""
    return _combined("min", rewards)


def product(*rewards: Rewarding) -> Reward:
    """The product of rewards within [0, 1]."""
    return _combined("product", rewards)


def at_least(what: Rewarding, threshold: float) -> Reward:
    """A reward that asks for no more than `threshold`."""
    return Reward(("atleast", reward(what)._node, float(threshold)))


def at_most(what: Rewarding, threshold: float) -> Reward:
    """A reward that asks for no less than `threshold`."""
    return Reward(("atmost", reward(what)._node, float(threshold)))


def step(what: Rewarding, threshold: float) -> Reward:
    """1 where a reward reaches `threshold`, else 0."""
    return Reward(("step", reward(what)._node, float(threshold)))


# Adapters: other libraries' judges in one line.


def pipeline(
    pipe: Callable[..., Any],
    label: Optional[str] = None,
    *,
    value: str = "logprob",
    name: Optional[str] = None,
    batch_size: int = 256,
    **options: Any,
) -> Reward:
    """A transformers text-classification pipeline: the log-probability of `label` (or its `prob`, or `raw` logit).

    `options` go to every call of the pipeline, such as `truncation=True`.
    """
    if value not in ("logprob", "prob", "raw"):
        raise RequestError(f"value: expected logprob, prob or raw, got {value!r}")
    config = getattr(getattr(pipe, "model", None), "config", None)
    several = getattr(config, "problem_type", None) == "multi_label_classification"

    def score(texts: List[str]) -> List[float]:
        rows = pipe(texts, top_k=None, function_to_apply="none", **options)
        return [_of_label(row, label, value, several) for row in rows]

    score.__name__ = name or f"pipeline_{label}" if label or name else "pipeline"
    return reward(score, name=name, batch_size=batch_size)


def _of_label(row: Any, label: Optional[str], value: str, several: bool) -> float:
    row = [row] if isinstance(row, dict) else row
    logits = {entry["label"]: float(entry["score"]) for entry in row}
    if label is None:
        if len(logits) != 1:
            raise RewardError(
                f"pipeline: expected a label, got none; the model has {', '.join(sorted(logits))}",
                'name one: treasure.pipeline(pipe, label="…")',
            )
        label = next(iter(logits))
    found = [own for own in logits if own.lower() == label.lower()]
    if not found:
        raise RewardError(f"pipeline: expected one of {', '.join(sorted(logits))}, got the label {label!r}")
    logit = logits[found[0]]
    if value == "raw":
        return logit
    if several or len(logits) == 1:
        logprob = -_softplus(-logit)
    else:
        top = max(logits.values())
        logprob = logit - top - math.log(sum(math.exp(other - top) for other in logits.values()))
    return logprob if value == "logprob" else math.exp(logprob)


def _softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + (x if x > 0 else 0.0)


def cross_encoder(
    model: Any, query: Optional[str] = None, *, name: str = "cross_encoder", batch_size: int = 256, **options: Any
) -> Reward:
    """A sentence-transformers `CrossEncoder`: how well a text answers `query`, or a completion its prompt."""

    def score(prompts: List[Any], completions: List[Any], texts: List[str]) -> Any:
        pairs = [(query, text) for text in texts] if query is not None else list(zip(prompts, completions))
        return model.predict(pairs, **options)

    return reward(score, name=name, batch_size=batch_size)


def verl(
    compute_score: Callable[..., Any], *, data_source: str = "treasure", ground_truth: Any = None,
    extra_info: Any = None, name: Optional[str] = None,
) -> Reward:
    """verl's `compute_score(data_source, solution_str, ground_truth, extra_info)`.

    A prompt's own fields of these names come first.
    """
    given = {"data_source": data_source, "ground_truth": ground_truth, "extra_info": extra_info}

    def score(completions: List[str], **columns: Any) -> List[float]:
        made = []
        for index, completion in enumerate(completions):
            own = {key: columns[key][index] if key in columns else value for key, value in given.items()}
            value = compute_score(solution_str=completion, **own)
            made.append(value["score"] if isinstance(value, dict) else value)
        return made

    return reward(score, name=name or getattr(compute_score, "__name__", "verl"))


def openrlhf(reward_func: Callable[..., Any], *, labels: Any = None, name: Optional[str] = None) -> Reward:
    """OpenRLHF's `reward_func(queries, prompts, labels)`; of its dictionary `rewards` count."""

    def score(prompts: List[Any], completions: List[Any], texts: List[str], **columns: Any) -> Any:
        own = columns.get("labels", columns.get("label", [labels] * len(texts)))
        value = reward_func(list(texts), list(prompts), list(own))
        return value["rewards"] if isinstance(value, dict) else value

    return reward(score, name=name or getattr(reward_func, "__name__", "openrlhf"))
