"""Serving a search: what it asks of Python is answered on the thread that called.

The first Ctrl-C stops the search and keeps its best, the second one is raised. An exception in a reward or a
model reaches the caller unchanged.
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ._calls import Batch, Leaf
from ._errors import note

log = logging.getLogger("treasure")


class Starts:
    """Where prompts end: takes a text apart into prompt, completion and the prompt's own columns."""

    def __init__(self, entries: Sequence[Dict[str, Any]], encode: Optional[Callable[[str], List[int]]] = None) -> None:
        self.by_text: Dict[str, Dict[str, Any]] = {entry["begins"]: entry for entry in entries}
        self.lengths = sorted({len(text) for text in self.by_text}, reverse=True)
        self.encode = encode

    def batch(self, texts: List[str]) -> Batch:
        """Texts with what their functions are given."""
        if not self.by_text:
            return Batch(texts, [""] * len(texts), list(texts), {}, self.encode)
        if len(self.by_text) == 1:
            ((begins, entry),) = self.by_text.items()
            if isinstance(entry["shown"], str) and all([text.startswith(begins) for text in texts]):
                # One prompt, as nearly always: nothing to look up.
                end, count = len(begins), len(texts)
                alike = {name: [value] * count for name, value in entry["extra"].items()}
                return Batch(texts, [entry["shown"]] * count, [text[end:] for text in texts], alike, self.encode)
        found = [self._of(text) for text in texts]
        names = {name for entry, _ in found for name in entry["extra"]}
        columns = {name: [entry["extra"].get(name) for entry, _ in found] for name in names}
        prompts = [entry["shown"] for entry, _ in found]
        completions: List[Any] = [text[end:] for text, (_, end) in zip(texts, found)]
        for index, (entry, _) in enumerate(found):
            if not isinstance(entry["shown"], str):  # a conversation is completed by a message
                completions[index] = [{"role": "assistant", "content": completions[index]}]
        return Batch(texts, prompts, completions, columns, self.encode)

    def _of(self, text: str) -> Tuple[Dict[str, Any], int]:
        for length in self.lengths:
            entry = self.by_text.get(text[:length])
            if entry is not None:
                return entry, length
        # The fk conventions clean the text up, the prompt's part too.
        common = {begin: _common(begin, text) for begin in self.by_text}
        best = max(common, key=lambda begin: common[begin])
        return self.by_text[best], common[best]


def _common(a: str, b: str) -> int:
    length = 0
    for x, y in zip(a, b):
        if x != y:
            break
        length += 1
    return length


def groups(entries: Sequence[Dict[str, Any]]) -> List[List[int]]:
    """Entries in groups in which no prompt begins another, so that every text has one prompt."""
    made: List[Dict[str, Any]] = []
    lists: List[List[int]] = []
    for index, entry in enumerate(entries):
        text = entry["begins"]
        for known, members in zip(made, lists):
            same = known.get(text)
            if same is not None and (same["extra"] != entry["extra"] or same["shown"] != entry["shown"]):
                continue
            if same is None and any(text.startswith(other) or other.startswith(text) for other in known):
                continue
            known[text] = entry
            members.append(index)
            break
        else:
            made.append({text: entry})
            lists.append([index])
    return lists


class Desk:
    """Answers what a run asks, and hands on what it tells."""

    def __init__(self, run: Any, leaves: Sequence[Leaf], starts: Starts, model: Any = None) -> None:
        self.run = run
        self.leaves = list(leaves)
        self.starts = starts
        self.model = model
        self.failure: Optional[BaseException] = None
        self.interrupted = False
        #: The encodings that the model keeps for this run.
        self.held: Set[int] = set()

    def messages(self) -> Iterator[Tuple[Any, ...]]:
        """What the run tells, until its end. Raises what failed."""
        failed: Optional[BaseException] = None
        try:
            while True:
                try:
                    message = self.run.next()
                except KeyboardInterrupt:
                    self._interrupt()
                    continue
                kind = message[0]
                if kind in ("score", "encode", "read", "logits"):
                    self._serve(message)
                elif kind == "failed":
                    # An interrupted search that has nothing to show is no failure of its own.
                    if not (message[3] and self.interrupted):
                        failed = failed or message[2]
                elif kind == "end":
                    break
                else:
                    yield message
        finally:
            self.run.cancel()
            if self.held:
                self.model.forget(self.held)
        if self.failure is not None:
            raise self.failure
        if failed is not None:
            raise failed

    def _interrupt(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self.run.cancel()
        log.warning("stopping and keeping the best so far (interrupt again to end at once)")

    def _serve(self, message: Tuple[Any, ...]) -> None:
        kind, ticket = message[0], message[1]
        if self.failure is not None:
            self.run.fail(ticket, "an earlier call failed")
            return
        try:
            try:
                self._answer(kind, ticket, message)
            except KeyboardInterrupt:
                # What was being computed is computed again, so that the best so far can be handed back.
                self._interrupt()
                self._answer(kind, ticket, message)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            self.failure = error
            self._note(kind, message, error)
            self.run.cancel()
            self.run.fail(ticket, f"raised {type(error).__name__}: {error}")

    def _answer(self, kind: str, ticket: int, message: Tuple[Any, ...]) -> None:
        if kind == "score":
            self.run.scores(ticket, self.leaves[message[2]](self.starts.batch(message[3])))
        elif kind == "encode":
            self._forget(message[3])
            made = self.model.encode(*message[2])
            self.held.update(handle for handle, _ in made)
            self.run.encoded(ticket, made)
        elif kind == "read":
            self.run.answers(ticket, self.model.read(message[2]))
            self._forget(message[3])
        else:
            self.run.logits(ticket, self.model.logits(*message[2]))

    def _forget(self, handles: Sequence[int]) -> None:
        self.held.difference_update(handles)
        self.model.forget(handles)

    def _note(self, kind: str, message: Tuple[Any, ...], error: BaseException) -> None:
        if kind == "score":
            texts = message[3]
            first = texts[0] if len(texts[0]) <= 100 else texts[0][:99] + "…"
            leaf = self.leaves[message[2]]
            note(error, f"treasure: in the reward own:{leaf.name}, {len(texts)} texts, the first of them {first!r}")
        else:
            note(error, f"treasure: in the model, asked to {kind}")
