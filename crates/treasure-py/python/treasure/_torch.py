"""A torch module as a search asks it: batches in, small answers out.

Logits of masked positions stay on the device; the likeliest tokens, top lists, draws and single log-probabilities are
taken there. Ties go to the lowest id. A question's answers cross in one transfer a kind.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from ._errors import ModelError
from ._models import row_of


class _Rows:
    """The logits of a state's masks: rows of its batch."""

    __slots__ = ("logits", "banned", "argmax", "confidence")

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits  # [masks, vocabulary]
        self.banned: Optional[Tuple[Any, ...]] = None
        self.argmax: Optional[List[int]] = None
        self.confidence: Optional[List[float]] = None


class TorchModel:
    """A module with its device."""

    def __init__(
        self,
        module: Any,
        mask_id: int,
        shift: str,
        call: str,
        device: Any,
        dtype: Any,
        batch_tokens: int,
        timed: bool,
        forward: Optional[Callable[..., Any]],
    ) -> None:
        if device is not None or dtype is not None:
            module = module.to(*[target for target in (device, dtype) if target is not None])
        if hasattr(module, "eval"):
            module.eval()
        self.module = module
        self.mask_id = mask_id
        self.shift = shift
        self.timed = timed or bool(call == "mdlm" and getattr(getattr(module, "config", None), "time_conditioning", False))
        self.device = torch.device(device) if device is not None else _device_of(module)
        self.batch_tokens = max(int(batch_tokens), 1)
        self.pads = True
        self.call = forward or self._caller(call)
        # MPS has no 64-bit floats.
        self.exact = torch.float32 if self.device.type == "mps" else torch.float64
        self.kept: Dict[int, _Rows] = {}
        #: Searches of several threads share them.
        self.numbers = itertools.count(1)
        self.vocab_size = self._probe()
        #: Tokens that are never emitted; set by whoever knows the tokenizer.
        self.never: List[int] = []
        self.bans: Dict[Tuple[int, ...], torch.Tensor] = {}

    def __repr__(self) -> str:
        return f"{type(self.module).__name__} on {self.device}"

    # Calling the module.

    def _caller(self, call: str) -> Callable[..., Any]:
        module = self.module
        if call == "mdlm":
            self.pads = False
            return lambda ids, mask, times: module(ids, timesteps=_sigma(times) if self.timed else torch.zeros_like(times))
        if call == "diffugpt":
            _see_both_ways(module)
            return lambda ids, mask, times: module(input_ids=ids, attention_mask=_four(mask, ids, _dtype_of(module)))
        if call == "dream":

            def dream(ids: torch.Tensor, mask: Optional[torch.Tensor], times: torch.Tensor) -> Any:
                if mask is None:
                    return module(ids, attention_mask="full")
                both = mask.bool()[:, None, None, :] & mask.bool()[:, None, :, None]
                return module(ids, attention_mask=both, position_ids=(mask.long().cumsum(-1) - 1).clamp(min=0))

            return dream
        try:
            names = set(inspect.signature(getattr(module, "forward", module)).parameters)
        except (TypeError, ValueError):
            names = set()
        if "attention_mask" not in names:
            self.pads = False
            return lambda ids, mask, times: module(ids)
        return lambda ids, mask, times: module(ids, attention_mask=torch.ones_like(ids) if mask is None else mask)

    @torch.inference_mode()
    def _run(self, ids: torch.Tensor, mask: Optional[torch.Tensor], times: torch.Tensor) -> torch.Tensor:
        made = self.call(ids, mask, times)
        if isinstance(made, dict):
            made = made["logits"]
        made = getattr(made, "logits", made)
        if isinstance(made, (tuple, list)):
            made = made[0]
        if not isinstance(made, torch.Tensor) or made.dim() != 3 or made.shape[:2] != ids.shape:
            shape = list(made.shape) if isinstance(made, torch.Tensor) else type(made).__name__
            raise ModelError(
                f"{self!r}: expected logits [{ids.shape[0]}, {ids.shape[1]}, vocabulary], got {shape}",
                "say how the module is called: from_torch(…, forward=lambda ids, attention_mask, times: …)",
            )
        return made

    def _probe(self) -> int:
        ids = torch.full((1, 2), self.mask_id, dtype=torch.long, device=self.device)
        try:
            logits = self._run(ids, None, torch.ones(1, device=self.device))
        except (IndexError, RuntimeError, TypeError) as error:
            raise ModelError(
                f"{self!r}: expected it to take two mask tokens of id {self.mask_id}, got {type(error).__name__}: {error}",
                "check mask_id, or say how the module is called: from_torch(…, forward=…)",
            ) from error
        return int(logits.shape[-1])

    # What a search asks.

    def encode(
        self, lengths: List[int], ids: bytes, masks: List[int], positions: bytes, times: List[float]
    ) -> List[Tuple[int, int]]:
        """Runs states through the module; a handle and a size in bytes for each."""
        flat = torch.frombuffer(bytearray(ids), dtype=torch.int64)
        places = memoryview(positions).cast("q").tolist()
        starts, seen, asked, rows = [], 0, 0, []
        for length, count in zip(lengths, masks):
            starts.append(seen)
            rows.append([row_of(place, self.shift) for place in places[asked : asked + count]])
            seen, asked = seen + length, asked + count
        made: List[Optional[_Rows]] = [None] * len(lengths)
        for members in self._portions(lengths):
            longest = max(lengths[index] for index in members)
            batch = torch.full((len(members), longest), self.mask_id, dtype=torch.long)
            mask = None
            if any(lengths[index] != longest for index in members):
                mask = torch.zeros((len(members), longest), dtype=torch.long)
            for row, index in enumerate(members):
                length = lengths[index]
                batch[row, :length] = flat[starts[index] : starts[index] + length]
                if mask is not None:
                    mask[row, :length] = 1
            time = torch.tensor([times[index] for index in members], dtype=torch.float32, device=self.device)
            logits = self._run(
                batch.to(self.device), None if mask is None else mask.to(self.device), time
            )
            wanted = [(row, place) for row, index in enumerate(members) for place in rows[index]]
            first = torch.tensor([row for row, _ in wanted], dtype=torch.long, device=self.device)
            second = torch.tensor([place for _, place in wanted], dtype=torch.long, device=self.device)
            with torch.inference_mode():
                kept = logits[first, second]  # [masks of all, vocabulary]
            at = 0
            for index in members:
                made[index] = _Rows(kept[at : at + masks[index]])
                at += masks[index]
        handles = []
        for one in made:
            assert one is not None
            handle = next(self.numbers)
            self.kept[handle] = one
            handles.append((handle, one.logits.numel() * one.logits.element_size()))
        return handles

    def _portions(self, lengths: List[int]) -> List[List[int]]:
        """Which states run together: of equal length where the module takes no attention mask, and not too many."""
        order = sorted(range(len(lengths)), key=lambda index: lengths[index])
        portions: List[List[int]] = []
        for index in order:
            last = portions[-1] if portions else []
            fits = (len(last) + 1) * lengths[index] <= self.batch_tokens
            if last and fits and (self.pads or lengths[last[0]] == lengths[index]):
                last.append(index)
            else:
                portions.append([index])
        return portions

    @torch.inference_mode()
    def read(self, asks: Sequence[Tuple[Any, ...]]) -> List[Tuple[Any, ...]]:
        """Answers questions about encoded states."""
        states = [self._state(ask[0]) for ask in asks]
        for state, ask in zip(states, asks):
            self._ban(state, ask[1])
        self._likeliest([state for state, ask in zip(states, asks) if ask[2][0] and state.argmax is None])
        self._sure([s for s, ask in zip(states, asks) if ask[2][0] and ask[2][1] and s.confidence is None])
        tops = self._tops([(state, row, k) for state, ask in zip(states, asks) for row, k in ask[3]])
        draws = self._draws([(state, row, u) for state, ask in zip(states, asks) for row, u in ask[4]])
        single = self._single([(state, row, token) for state, ask in zip(states, asks) for row, token in ask[5]])
        answers, i, j, k = [], 0, 0, 0
        for state, (_, _, (argmax, confidence), top, draw, logprob, whole) in zip(states, asks):
            answers.append((
                state.argmax if argmax else [],
                state.confidence if argmax and confidence else [],
                tops[i : i + len(top)],
                draws[j : j + len(draw)],
                single[k : k + len(logprob)],
                self._whole(state, whole),
            ))
            i, j, k = i + len(top), j + len(draw), k + len(logprob)
        return answers

    def _state(self, handle: int) -> _Rows:
        try:
            return self.kept[handle]
        except KeyError:
            raise ModelError(f"{self!r}: there is no encoding {handle}") from None

    def forget(self, handles: Iterable[int]) -> None:
        """Lets go of encodings that no search needs any more."""
        for handle in handles:
            self.kept.pop(handle, None)

    def _ban(self, state: _Rows, bans: Tuple[Any, ...]) -> None:
        everywhere, before = bans
        sign = (tuple(everywhere), tuple(before))
        if state.banned == sign:
            return
        if state.banned is not None:
            raise ModelError(f"{self!r}: an encoding was asked about under other bans")
        state.banned = sign
        if sign[0] not in self.bans:
            ids = sorted({token for token in everywhere if token < self.vocab_size} | set(self.never))
            self.bans[sign[0]] = torch.tensor(ids, dtype=torch.long, device=self.device)
        state.logits.index_fill_(-1, self.bans[sign[0]], -torch.inf)
        for token, rows in before:
            state.logits[:rows, token] = -torch.inf

    def _likeliest(self, states: List[_Rows]) -> None:
        states = list({id(state): state for state in states}.values())
        if not states:
            return
        found = torch.cat([state.logits.argmax(-1) for state in states]).tolist()
        at = 0
        for state in states:
            state.argmax = found[at : at + len(state.logits)]
            at += len(state.logits)

    def _sure(self, states: List[_Rows]) -> None:
        states = list({id(state): state for state in states}.values())
        if not states:
            return
        parts = []
        for state in states:
            wide = state.logits.to(self.exact)
            parts.append(wide.amax(-1) - wide.logsumexp(-1))
        found = torch.cat(parts).tolist()
        at = 0
        for state in states:
            state.confidence = found[at : at + len(state.logits)]
            at += len(state.logits)

    def _gather(self, asked: Sequence[Tuple[Any, ...]]) -> torch.Tensor:
        rows = torch.stack([state.logits[row] for state, row, _ in asked]).to(self.exact)
        return rows.log_softmax(-1)

    def _tops(self, asked: Sequence[Tuple[_Rows, int, int]]) -> List[Tuple[List[int], List[float]]]:
        if not asked:
            return []
        rows = self._gather(asked)
        most = min(max(k for _, _, k in asked), rows.shape[-1])
        values, ids = rows.topk(most)
        # Ties are the lowest id's: where equals may have been left out, or stand in any order, sort in full.
        tied = (values[:, 1:] == values[:, :-1]).any(-1)
        tied |= (rows >= values[:, -1:]).sum(-1) > most
        both = torch.stack([values, ids.to(values.dtype)]).tolist()
        unsure = tied.tolist()
        made = []
        for index, (_, _, k) in enumerate(asked):
            row_values, row_ids = both[0][index], both[1][index]
            if unsure[index]:
                ordered, order = rows[index].sort(descending=True, stable=True)
                row_values, row_ids = ordered[:k].tolist(), order[:k].tolist()
            kept = [(int(i), v) for i, v in zip(row_ids[:k], row_values[:k]) if v > -torch.inf]
            made.append(([i for i, _ in kept], [v for _, v in kept]))
        return made

    def _draws(self, asked: Sequence[Tuple[_Rows, int, float]]) -> List[int]:
        if not asked:
            return []
        rows = self._gather(asked).exp()
        sums = rows.cumsum(-1)
        u = torch.tensor([u for _, _, u in asked], dtype=rows.dtype, device=rows.device)[:, None]
        found = torch.searchsorted(sums, u, right=True)
        # Rounding may leave the sum below u: then the last possible token.
        last = (rows > 0).to(torch.int64).cumsum(-1).argmax(-1, keepdim=True)
        # A row that is no distribution has no draw: said, not guessed.
        drawn = torch.where(sums[:, -1:].isnan(), -1, torch.minimum(found, last))[:, 0].tolist()
        if -1 in drawn:
            raise ModelError(f"{self!r}: expected a probability for every token, got NaN", "check the module's logits")
        return drawn

    def _whole(self, state: _Rows, rows: Sequence[int]) -> List[bytes]:
        """Rows of all tokens: what a constraint needs, and nothing else asks for."""
        if not rows:
            return []
        made = state.logits[torch.tensor(rows, device=self.device)].float().log_softmax(-1).cpu().contiguous()
        return [ctypes.string_at(row.data_ptr(), row.numel() * row.element_size()) for row in made]

    def _single(self, asked: Sequence[Tuple[_Rows, int, int]]) -> List[float]:
        if not asked:
            return []
        rows = self._gather(asked)
        tokens = torch.tensor([token for _, _, token in asked], device=rows.device)[:, None]
        return rows.gather(-1, tokens)[:, 0].tolist()


def _device_of(module: Any) -> torch.device:
    parameters = getattr(module, "parameters", None)
    first = next(iter(parameters()), None) if parameters else None
    return first.device if first is not None else torch.device("cpu")


def _dtype_of(module: Any) -> torch.dtype:
    first = next(iter(module.parameters()), None)
    return first.dtype if first is not None else torch.float32


def _sigma(times: torch.Tensor) -> torch.Tensor:
    """mdlm's log-linear noise level of a time."""
    return -torch.log1p(-(1 - 1e-3) * times)


def _four(mask: Optional[torch.Tensor], ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An additive mask [batch, 1, length, length] that hides padding and nothing else."""
    batch, length = ids.shape
    made = torch.zeros((batch, 1, length, length), dtype=dtype, device=ids.device)
    if mask is not None:
        made.masked_fill_(mask[:, None, None, :] == 0, torch.finfo(dtype).min)
    return made


def _see_both_ways(module: Any) -> None:
    """Takes the causal mask out of a GPT-2's attention, in place: DiffuGPT reads in both directions."""
    for name, buffer in module.named_buffers():
        if name.endswith("attn.bias") and buffer.dim() == 4:
            buffer.fill_(True)
    for part in module.modules():
        if hasattr(part, "is_causal"):
            part.is_causal = False
