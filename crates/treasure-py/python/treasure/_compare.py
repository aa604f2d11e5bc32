"""Several methods at one budget, as `treasure compare` runs them."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _treasure
from ._errors import RequestError
from ._results import Sample, Samples

_FACTS = json.loads(_treasure.facts())
_SPENT = {
    "nfe": lambda sample: float(sample.cost.nfe),
    "reward_calls": lambda sample: float(sample.cost.reward_calls),
    "seconds": lambda sample: sample.cost.seconds,
}
#: More than this many particles would not fit in memory or in anybody's patience.
_MOST = 100_000


def compare(
    t: Any, prompt: Any, methods: Sequence[str], match: Optional[str], reward: Any, judge: Any, samples: int,
    progress: bool, options: Dict[str, Any],
) -> Samples:
    """The rows of all methods; widths and budget stand in each row's plan."""
    known: Dict[str, Dict[str, Any]] = _FACTS["methods"]
    every = {name for own in known.values() for name in own}
    _check(methods, known, every, options)
    entries = t._entries(prompt, None)[1]
    if any(entry.get("template") for entry in entries):
        raise RequestError("prompt: methods are compared on prompts, got a template")
    if judge is None:
        judge = _FACTS["judges"].get("perplexity" if reward is None else reward) if _plain(reward) else None
    matched, limit = _budget(match, options)
    budget, rows = limit, []  # type: Optional[float], List[Sample]
    set_by_user = any(_FACTS["widths"].get(method) in options for method in methods)

    def run(method: str, given: Dict[str, Any], judge: Any, some: Any, count: int, shown: bool) -> Samples:
        request, leaves = t._request(reward, judge, None, count, {**given, "method": method})
        # One at a time, so that a method's seconds are its own.
        made = t._all(some, request, leaves, count, shown, False, False, {"in_flight": 1})
        return Samples(row for row in made if row.stopped != "interrupted")

    for method in methods:
        given = {name: value for name, value in options.items() if name not in every or name in known[method]}
        width = None if set_by_user else _FACTS["widths"].get(method)
        if budget is not None and width:
            free = {name: value for name, value in given.items() if not name.startswith("max_")}
            tries = [run(method, {**free, width: wide}, None, entries[:1], 1, False) for wide in (1, 3)]
            if not all(tries):
                break
            one, three = (_SPENT[matched](made[0]) for made in tries)
            # Some of the cost may not depend on the width, and time is noisy.
            paid = 1 + (budget - one) / max((three - one) / 2, one / 20, 1e-9)
            # A limit is not to be exceeded, another method's cost is to be met.
            paid = math.floor(paid) if limit is not None else math.floor(paid + 0.5)
            given[width] = int(max(1, min(paid, _MOST)))
        made = run(method, given, judge, entries, samples, progress)
        if not made:
            break
        budget = _SPENT[matched](made[0]) if budget is None else budget
        for row in made:
            row._row["plan"].update(match=matched.replace("_", "-"), budget=budget)
        rows.extend(made)
        if len(made) < len(entries) * samples:
            break
    return Samples(rows)


def _plain(reward: Any) -> bool:
    return reward is None or isinstance(reward, str)


def _check(methods: Sequence[str], known: Dict[str, Any], every: set, options: Dict[str, Any]) -> None:
    if len(set(methods)) != len(methods):
        raise RequestError(f"methods: expected each once, got {', '.join(methods)}")
    if options.get("screen") is not None:
        raise RequestError("screen: methods are compared on exact scores", "leave it out, or use it with generate")
    for name in methods:
        if name not in known:
            raise RequestError(f"methods: expected some of {', '.join(known)}, got {name!r}")
    own = {name for method in methods for name in known[method]}
    unused = [name for name in options if name in every and name not in own]
    if unused:
        raise RequestError(f"{unused[0]}: none of {', '.join(methods)} has a use for it")


def _budget(match: Optional[str], options: Dict[str, Any]) -> Tuple[str, Optional[float]]:
    """What is matched, and the budget of all methods where a limit says it."""
    limits = {name: options.get(f"max_{name}") for name in _SPENT}
    given = [name for name, limit in limits.items() if limit is not None]
    matched = match.replace("-", "_") if match is not None else given[0] if given else "nfe"
    if matched not in _SPENT:
        raise RequestError(f"match: expected nfe, reward_calls or seconds, got {match!r}")
    limit = limits[matched]
    return matched, None if limit is None else float(limit)
