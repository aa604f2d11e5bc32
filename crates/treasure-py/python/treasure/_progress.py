"""Progress: tqdm where it is installed, else a line on standard error."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional


class Bar:
    """How far a call has come, in searches and their steps."""

    def __init__(self, shown: bool, searches: int) -> None:
        self.shown = bool(shown)
        self.searches = searches
        self.parts: Dict[int, float] = {}
        self.finished = 0
        self.best: Optional[float] = None
        self.bar: Any = None

    def __enter__(self) -> "Bar":
        if self.shown:
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped]

                form = "{l_bar}{bar}| {n:.1f}/{total:.0f} [{elapsed}<{remaining}{postfix}]"
                self.bar = tqdm(total=float(self.searches), unit="text", bar_format=form)
            except ImportError:
                self.bar = None
        return self

    def step(self, job: int, step: int, steps: int, best: Optional[float]) -> None:
        """A step of a search."""
        self.parts[job] = step / max(steps, 1)
        self._see(best)

    def done(self, job: int, reward: float) -> None:
        """A finished search."""
        if not self.shown:
            return
        self.parts.pop(job, None)
        self.finished += 1
        self._see(reward)

    def _see(self, reward: Optional[float]) -> None:
        if reward is not None and (self.best is None or reward > self.best):
            self.best = reward
        way = self.finished + sum(self.parts.values())
        best = "" if self.best is None else f"{self.best:.3f}"
        if self.bar is not None:
            self.bar.set_postfix(best=best, refresh=False)
            self.bar.update(way - self.bar.n)
        else:
            sys.stderr.write(f"\r{way:.1f}/{self.searches} texts, best reward {best}  ")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.shown:
            sys.stderr.write("\n")
