"""What can go wrong: every error says what was expected, what came, and what to do about it."""

from __future__ import annotations

from typing import List, Optional, Sequence


class Error(Exception):
    """Something went wrong. `hint` says what can be done about it, `because` what led to it."""

    kind = "search"

    def __init__(self, message: str, hint: Optional[str] = None, because: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.because: List[str] = list(because)

    def __str__(self) -> str:
        lines = [self.message] + ["  because: " + cause.replace("\n", "\n  ") for cause in self.because]
        if self.hint:
            lines.append("hint: " + self.hint)
        return "\n".join(lines)

    def __reduce__(self):
        return (type(self), (self.message, self.hint, self.because))


class RequestError(Error, ValueError):
    """The request cannot be carried out as written."""

    kind = "request"


class ModelError(Error):
    """A model cannot be found, read or run."""

    kind = "model"


class RewardError(Error):
    """A reward cannot be built, or failed."""

    kind = "reward"


class SearchError(Error):
    """The search itself failed."""

    kind = "search"


class StoppedError(Error):
    """A search was stopped before there was any text."""

    kind = "stopped"


class FileError(Error, OSError):
    """A file or a stream failed."""

    kind = "io"

    # OSError reads its arguments as errno and file name; ours are words.
    def __new__(cls, *arguments, **keywords):
        return Exception.__new__(cls)


_KINDS = {cls.kind: cls for cls in (RequestError, ModelError, RewardError, StoppedError, FileError, SearchError)}


def make(kind: str, chain: Sequence[str], hint: Optional[str]) -> Error:
    """The exception for an error of the search: its kind, its messages from the outermost in, its hint."""
    return _KINDS.get(kind, Error)(chain[0] if chain else kind, hint, list(chain[1:]))


def note(error: BaseException, text: str) -> None:
    """Adds a line to an exception's traceback, where Python can (3.11)."""
    if hasattr(error, "add_note"):
        error.add_note(text)
