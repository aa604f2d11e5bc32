"""Streamers of transformers: `put` the prompt's ids, `put_draft` the sequence at each step, `put` the answer, `end`."""

from __future__ import annotations

from typing import Any, Iterator, List

from ._results import Frame, Sample


def feed(frames: Iterator[Frame], streamer: Any, prompt: List[int], mask_id: int) -> Sample:
    """Feeds a streamer with a search; the answer."""
    put, draft, end = streamer.put, getattr(streamer, "put_draft", None), streamer.end
    put(_tensor(prompt))
    answer = None
    try:
        for frame in frames:
            if frame.sample is not None:
                answer = frame.sample
            elif draft is not None and frame.ids is not None:
                draft(_tensor([mask_id if id is None else id for id in frame.ids], rows=1))
    except KeyboardInterrupt:
        # A search that Ctrl-C has stopped hands back its best first: that is the answer then.
        if answer is None:
            raise
    assert answer is not None, "a stream ends with its answer or raises"
    put(_tensor(answer.tokens))
    end()
    return answer


def _tensor(ids: List[int], rows: int = 0) -> Any:
    """Ids as streamers expect them: a tensor where torch is there."""
    shaped: Any = [ids] if rows else ids
    try:
        import torch
    except ImportError:
        return shaped
    return torch.tensor(shaped)
