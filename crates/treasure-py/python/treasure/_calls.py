"""Calling other people's reward functions: TRL's signature unchanged, sync or async.

A function is given what its signature names: `prompts`, `completions`, `texts` (prompt + completion),
`completion_ids`, and the columns of the prompts. What it returns must be one finite number a text.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

from ._errors import RequestError, RewardError

#: What TRL's trainer hands over and a search has not: given as none to whoever names it.
_TRAINER = {"trainer_state": None, "log_extra": lambda *a, **k: None, "log_metric": lambda *a, **k: None}


class Batch:
    """Texts to score, taken apart."""

    __slots__ = ("texts", "prompts", "completions", "columns", "encode")

    def __init__(
        self,
        texts: Sequence[str],
        prompts: Sequence[Any],
        completions: Sequence[Any],
        columns: Dict[str, List[Any]],
        encode: Optional[Callable[[str], List[int]]] = None,
    ) -> None:
        self.texts = texts
        self.prompts = prompts
        self.completions = completions
        self.columns = columns
        self.encode = encode


class Leaf:
    """A Python function as a reward."""

    __slots__ = ("function", "name", "batch_size", "wants", "rest", "split", "trainer")

    def __init__(self, function: Callable[..., Any], name: Optional[str] = None, batch_size: int = 256) -> None:
        if not callable(function):
            raise RequestError(f"reward: expected a specification or a function, got {function!r}")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise RequestError(f"batch_size: expected a whole number of at least 1, got {batch_size!r}")
        self.function = function
        given = name or getattr(function, "__name__", None) or type(function).__name__
        self.name = re.sub(r"[^A-Za-z0-9_.-]+", "_", given).strip("_") or "function"
        self.batch_size = batch_size
        self.wants, self.rest = _signature(function, self.name)
        self.trainer = {name: value for name, value in _TRAINER.items() if name in self.wants}
        #: Whether it matters where the prompt ends.
        self.split = self.rest or self.wants != {"texts"}

    def __call__(self, batch: Batch) -> List[float]:
        known: Dict[str, Any] = {"prompts": batch.prompts, "completions": batch.completions}
        if "texts" in self.wants:
            known["texts"] = list(batch.texts)
        if "completion_ids" in self.wants:
            if batch.encode is None:
                raise RewardError(f"reward own:{self.name}: completion_ids are known in a search only")
            known["completion_ids"] = [batch.encode(_plain(completion)) for completion in batch.completions]
        known.update(batch.columns)
        known.update(self.trainer)
        if not self.rest:
            known = {name: value for name, value in known.items() if name in self.wants}
        if not self.wants <= known.keys():
            missing = [name for name in self.wants if name not in known]
            raise RewardError(
                f"reward own:{self.name}: expected {missing[0]!r} beside the prompts, got none",
                'give it with each prompt: generate([{"prompt": …, "%s": …}], …)' % missing[0],
            )
        values = self.function(**known)
        if type(values) is not list and inspect.isawaitable(values):
            values = _wait(values)
        return numbers(values, batch.texts, f"own:{self.name}")


def _plain(completion: Any) -> str:
    return completion if isinstance(completion, str) else "".join(message["content"] for message in completion)


def _signature(function: Callable[..., Any], name: str):
    """The names that must be given, and whether any others may be."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return set(), True
    wants, rest = set(), False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = True
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise RequestError(
                f"reward own:{name}: expected named parameters, got {parameter.name!r}, which takes no name",
                "write def reward(prompts, completions, **kwargs): …",
            )
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif parameter.default is parameter.empty or parameter.name in _KNOWN:
            wants.add(parameter.name)
    if not wants and not rest:
        raise RequestError(
            f"reward own:{name}: expected a function of prompts and completions, got one without parameters",
            "write def reward(prompts, completions, **kwargs): …",
        )
    return wants, rest


_KNOWN = {"prompts", "completions", "texts", "completion_ids", *_TRAINER}


def numbers(values: Any, texts: Sequence[str], name: str) -> List[float]:
    """One finite number a text, or an error that names the text."""
    if type(values) is list and len(values) == len(texts):
        try:
            made = list(map(float, values))
        except (TypeError, ValueError):
            made = []
        if made and all(map(math.isfinite, made)):
            return made
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise RewardError(
            f"reward {name}: expected a list of {len(texts)} numbers, got {type(values).__name__}",
            "return one number a completion",
        )
    values = list(values)
    if len(values) != len(texts):
        raise RewardError(
            f"reward {name}: expected {len(texts)} numbers, got {len(values)}; the first text is {_short(texts[0])}",
            "return one number a completion, in order",
        )
    made = []
    for value, text in zip(values, texts):
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise RewardError(
                f"reward {name}: expected a number, got {_short(value)} for the text {_short(text)}",
                "a search needs a number for every text; give the lowest one to what the reward does not apply to",
            ) from None
        if not math.isfinite(number):
            raise RewardError(
                f"reward {name}: expected a finite number, got {number} for the text {_short(text)}",
                "a search compares numbers; give a low finite one to what is worst",
            )
        made.append(number)
    return made


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:119] + "…"


_loop: Optional[asyncio.AbstractEventLoop] = None
_lock = threading.Lock()


def _wait(awaitable: Any) -> Any:
    """The result of a coroutine, run on a loop of its own thread, so that a notebook's loop may run here."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="treasure-async", daemon=True).start()

    async def run() -> Any:
        return await awaitable

    future = asyncio.run_coroutine_threadsafe(run(), _loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
