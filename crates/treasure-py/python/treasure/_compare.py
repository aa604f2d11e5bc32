"""Several methods at one budget, as `treasure compare` runs them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ._errors import RequestError
from ._results import Sample, Samples

_SPENT = {
    "nfe": lambda sample: float(sample.cost.nfe),
    "reward_calls": lambda sample: float(sample.cost.reward_calls),
    "seconds": lambda sample: sample.cost.seconds,
}
#: More than this many particles would not fit in memory or in anybody's patience.
_MOST = 100_000


def compare(
    t: Any, prompt: Any, methods: Sequence[str], match: str, reward: Any, judge: Any, samples: int, progress: bool,
    options: Dict[str, Any],
) -> Samples:
    """The rows of all methods; widths and budget stand in each row's plan."""
    from . import methods as known

    match = match.replace("-", "_")
    if match not in _SPENT:
        raise RequestError(f"match: expected nfe, reward_calls or seconds, got {match!r}")
    if len(set(methods)) != len(methods):
        raise RequestError(f"methods: expected each once, got {', '.join(methods)}")
    if options.get("screen") is not None:
        raise RequestError("screen: methods are compared on exact scores", "leave it out, or use it with generate")
    for name in methods:
        if name not in known:
            raise RequestError(f"methods: expected some of {', '.join(known)}, got {name!r}")
    own = {name for method in methods for name in known[method]}
    every = {name for options_of in known.values() for name in options_of}
    unused = [name for name in options if name in every and name not in own]
    if unused:
        raise RequestError(f"{unused[0]}: none of {', '.join(methods)} has a use for it")
    one, entries = t._entries(prompt, None)
    if any(entry.get("template") for entry in entries):
        raise RequestError("prompt: methods are compared on prompts, got a template")
    spent, budget, rows = _SPENT[match], None, []  # type: Any, Optional[float], List[Sample]
    for method in methods:
        given = {name: value for name, value in options.items() if name not in every or name in known[method]}
        width = _free_width(known[method], options)
        if budget is not None and width:
            unit = _rows(t, entries[:1], method, reward, judge, 1, False, {**given, width: 1})
            if not unit:
                break
            given[width] = int(max(1, min(round(budget / max(spent(unit[0]), 1e-9)), _MOST)))
        made = _rows(t, entries, method, reward, judge, samples, progress, given)
        if not made:
            break
        budget = spent(made[0]) if budget is None else budget
        for row in made:
            row._row["plan"]["match"] = match.replace("_", "-")
            row._row["plan"]["budget"] = int(budget) if match != "seconds" else budget
        rows.extend(made)
    return Samples(rows)


def _rows(
    t: Any, entries: Any, method: str, reward: Any, judge: Any, samples: int, progress: bool, options: Dict[str, Any]
) -> Samples:
    request, leaves = t._request(reward, judge, None, samples, {**options, "method": method})
    # One at a time, so that a method's seconds are its own.
    return t._all(entries, request, leaves, samples, progress, False, False, {"in_flight": 1})


def _free_width(own: Dict[str, Any], options: Dict[str, Any]) -> Optional[str]:
    """The option of a method that a budget may set: none if the user did, or if there is none."""
    if "particles" in options or "tree_width" in options:
        return None
    return next((name for name in ("particles", "tree_width") if name in own), None)
