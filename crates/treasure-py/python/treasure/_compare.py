"""Several methods at one budget, as every door runs them."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence

from ._errors import RequestError
from ._loop import Starts, groups
from ._progress import Bar
from ._results import Sample, Samples


def compare(
    t: Any, prompt: Any, methods: Sequence[str], match: Optional[str], reward: Any, judge: Any, samples: int,
    progress: bool, options: Dict[str, Any],
) -> Samples:
    """The rows of all methods; widths and budget stand in each row's plan."""
    entries = t._entries(prompt, None, options)[1]
    request, leaves = t._request(reward, judge, None, samples, options)
    if any(leaf.split for leaf in leaves) and len(groups(entries)) > 1:
        raise RequestError(
            "prompt: expected prompts of which none begins another, for a function that is told where each ends",
            "compare them in calls of their own",
        )
    work = {
        "do": "compare", "request": request, "methods": list(methods), "match": match, "held_out": judge is None,
        "entries": [{"prompt": entry["prompt"], "template": entry["template"], "extra": entry["extra"]} for entry in entries],
    }
    rows: List[Sample] = []
    with Bar(progress, len(methods) * len(entries) * samples) as bar:
        # One at a time, so that a method's seconds are its own.
        desk = t._run({**work, "steps": bar.shown}, leaves, Starts(entries, t._encode), in_flight=1)
        for message in desk.messages():
            if message[0] == "step":
                bar.step(*message[1:])
                continue
            rows.append(Sample(json.loads(message[2]), message[3], message[4]))
            bar.done(0, rows[-1].reward)
    if desk.interrupted and not rows:
        raise KeyboardInterrupt
    return Samples(rows)
