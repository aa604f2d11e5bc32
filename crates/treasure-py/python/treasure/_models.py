"""One's own models: a function from ids to logits, or a torch module on its device."""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _treasure
from ._errors import ModelError, RequestError
from ._session import Treasure

Ids = Union[int, Sequence[int], None]


@dataclass(frozen=True)
class Preset:
    """What is known of a family of models."""

    #: The mask token.
    mask_id: Optional[int]
    #: The token a text begins with.
    bos_id: Optional[int] = None
    #: The tokens that end a text.
    eos_ids: Tuple[int, ...] = ()
    #: Which row predicts a position: "none" its own, "keep-first" the one before (position 0 its own), "first-given"
    #: the one before, and position 0 is given.
    shift: str = "none"
    #: How it is called: "plain", "dream", "mdlm" or "diffugpt".
    call: str = "plain"
    #: A function from messages to a prompt.
    chat: Optional[Callable[[List[Dict[str, str]]], str]] = None
    #: Values of `config.model_type` that mean it.
    model_types: Tuple[str, ...] = ()


def _llada_chat(messages: List[Dict[str, str]]) -> str:
    # The start of the text is put in front by the search, once.
    turns = "".join(
        f"<|start_header_id|>{message['role']}<|end_header_id|>\n\n{message['content'].strip()}<|eot_id|>"
        for message in messages
    )
    return turns + "<|start_header_id|>assistant<|end_header_id|>\n\n"


def _chatml(messages: List[Dict[str, str]]) -> str:
    if not messages or messages[0]["role"] != "system":
        messages = [{"role": "system", "content": "You are a helpful assistant."}, *messages]
    turns = "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages)
    return turns + "<|im_start|>assistant\n"


#: Families of models with the ids of their published checkpoints; a checkpoint's own config comes first.
presets: Dict[str, Preset] = {
    "llada": Preset(126336, 126080, (126081, 126348), chat=_llada_chat, model_types=("llada",)),
    "dream": Preset(151666, None, (151643, 151645), "keep-first", "dream", _chatml, ("Dream", "dream")),
    "mdlm": Preset(50257, 50256, (50256,), call="mdlm", model_types=("mdlm",)),
    "diffugpt": Preset(10541, 50256, (50256,), "first-given", "diffugpt"),
}


def tokenizer_json(tokenizer: Any) -> Tuple[str, str]:
    """The text of a `tokenizer.json`, and a name for it."""
    if isinstance(tokenizer, (str, Path)):
        path = Path(tokenizer)
        path = path / "tokenizer.json" if path.is_dir() else path
        try:
            return path.read_text(encoding="utf-8"), str(path)
        except OSError as error:
            raise ModelError(f"tokenizer {path}: {error}", "name a directory that holds tokenizer.json") from error
    inner = getattr(tokenizer, "backend_tokenizer", None) or tokenizer
    if not hasattr(inner, "to_str"):
        raise RequestError(
            f"tokenizer: expected a fast tokenizer or a directory, got {type(tokenizer).__name__}",
            "load it with use_fast=True, or name a directory that holds tokenizer.json",
        )
    return inner.to_str(), type(tokenizer).__name__


def special(tokenizer: Any, name: str, given: Any, fallback: Any = None) -> Any:
    """A special token's id: the given one, the tokenizer's, or the family's."""
    if given is not None:
        return given
    own = getattr(tokenizer, name, None)
    return own if isinstance(own, int) else fallback


def id_list(ids: Ids) -> List[int]:
    """Ids from one, several or none."""
    return [] if ids is None else [ids] if isinstance(ids, int) else list(ids)


def vocabulary(text: str) -> int:
    """One more than the largest id of a tokenizer."""
    parsed = json.loads(text)
    entries = parsed.get("model", {}).get("vocab", {})
    largest = max(entries.values(), default=-1) if isinstance(entries, dict) else len(entries) - 1
    return 1 + max([largest, *(token["id"] for token in parsed.get("added_tokens", []))])


class FunctionModel:
    """A function from ids to logits, as a search asks it."""

    def __init__(self, function: Callable[..., Any], vocab_size: int, shift: str, timed: bool) -> None:
        self.function = function
        self.vocab_size = vocab_size
        self.shift = shift
        self.timed = timed

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def logits(
        self, lengths: List[int], ids: bytes, masks: List[int], positions: bytes, times: List[float]
    ) -> List[bytes]:
        """The rows of every state's masks, as float64."""
        flat, places = memoryview(ids).cast("q").tolist(), memoryview(positions).cast("q").tolist()
        batch, asked, at, seen = [], [], 0, 0
        for length, count in zip(lengths, masks):
            batch.append(flat[at : at + length])
            asked.append([row_of(place, self.shift) for place in places[seen : seen + count]])
            at, seen = at + length, seen + count
        made = self.function(batch, times) if self.timed else self.function(batch)
        if len(made) != len(batch):
            raise ModelError(f"{self!r}: expected logits of {len(batch)} sequences, got {len(made)}")
        return [self._rows(one, rows, length) for one, rows, length in zip(made, asked, lengths)]

    def _rows(self, logits: Any, rows: List[int], length: int) -> bytes:
        if len(logits) != length:
            raise ModelError(f"{self!r}: expected {length} rows, one a position, got {len(logits)}")
        out = bytearray()
        for row in rows:
            one = logits[row]
            one = one.tolist() if hasattr(one, "tolist") else one
            if len(one) != self.vocab_size:
                raise ModelError(f"{self!r}: expected {self.vocab_size} logits a position, got {len(one)}")
            out += array("d", one).tobytes()
        return bytes(out)


def row_of(position: int, shift: str) -> int:
    """The row that predicts a position."""
    if shift == "none":
        return position
    if position == 0 and shift == "first-given":
        raise ModelError(
            "position 0: expected a given token, got a mask",
            "this model predicts each token from the one before: begin with its BOS token, bos_id=…",
        )
    return max(position - 1, 0)


def shift_name(shift: Union[bool, str, None], default: str) -> str:
    """`False`, `True` or a name as a name."""
    if shift is None:
        return default
    name = shift if isinstance(shift, str) else "keep-first" if shift else "none"
    if name not in ("none", "keep-first", "first-given"):
        raise RequestError(f'shift: expected True, False, "keep-first" or "first-given", got {shift!r}')
    return name


def from_callable(
    function: Callable[..., Any],
    tokenizer: Any,
    *,
    mask_id: int,
    vocab_size: Optional[int] = None,
    bos_id: Optional[int] = None,
    eos_id: Ids = None,
    max_len: int = 4096,
    shift: Union[bool, str] = False,
    timed: bool = False,
) -> Treasure:
    """A model from a function: `function(batch of id lists)` gives, for each, a row of logits a position.

    Rows may be lists or arrays. With `timed` the function is also given the diffusion times. Logits cross over to
    the search, so this suits small models; `from_torch` leaves them on their device. Each sequence must be treated on
    its own, or results depend on what runs beside it.
    """
    text, place = tokenizer_json(tokenizer)
    size = vocab_size if vocab_size is not None else max(vocabulary(text), mask_id + 1)
    shift = shift_name(shift, "none")
    engine = _treasure.Engine.own(
        text, place=place, vocab_size=size, mask_id=mask_id, max_len=max_len, time_agnostic=not timed,
        on_device=False, bos_id=special(tokenizer, "bos_token_id", bos_id),
        eos_ids=id_list(special(tokenizer, "eos_token_id", eos_id)),
    )
    keywords = dict(
        mask_id=mask_id, vocab_size=vocab_size, bos_id=bos_id, eos_id=eos_id, max_len=max_len, shift=shift, timed=timed,
    )
    remake = (_again, (from_callable, function, tokenizer, keywords))
    return Treasure(engine, {"model": "own"}, FunctionModel(function, size, shift, timed), remake)


def _again(make: Callable[..., Treasure], model: Any, tokenizer: Any, keywords: Dict[str, Any]) -> Treasure:
    return make(model, tokenizer, **keywords)


def from_torch(
    model: Any,
    tokenizer: Any,
    *,
    preset: Optional[str] = None,
    mask_id: Optional[int] = None,
    bos_id: Optional[int] = None,
    eos_id: Ids = None,
    shift: Union[bool, str, None] = None,
    device: Any = None,
    dtype: Any = None,
    max_len: Optional[int] = None,
    batch_tokens: int = 65536,
    timed: bool = False,
    forward: Optional[Callable[..., Any]] = None,
    chat: Optional[Callable[[List[Dict[str, str]]], str]] = None,
) -> Treasure:
    """A model from any torch module that maps ids to logits; what is large stays on its device.

    `preset` (llada, dream, mdlm, diffugpt) knows ids, shift and chat template of a family; it is found by the
    model's config where there is one. `shift` says that a row predicts the next position. `device` and `dtype` move
    the module. A batch holds at most `batch_tokens` positions.

    `forward(ids, attention_mask, times)` replaces the way the module is called; it returns logits
    [batch, length, vocabulary]. With `timed` predictions depend on the time. `chat` turns messages into a prompt.

    Torch's kernels may round differently in other batches, so unlike the built-in runtime a text may depend, at
    near-ties, on what runs beside it; `in_flight=1` makes a run repeatable.
    """
    from ._torch import TorchModel

    keywords = dict(
        preset=preset, mask_id=mask_id, bos_id=bos_id, eos_id=eos_id, shift=shift, device=device, dtype=dtype,
        max_len=max_len, batch_tokens=batch_tokens, timed=timed, forward=forward, chat=chat,
    )
    config = getattr(model, "config", None)
    family = _family(preset, config)
    known = presets.get(family or "", Preset(None))
    own = lambda name: getattr(config, name, None)  # noqa: E731
    if mask_id is None:
        mask_id = own("mask_token_id")
    if mask_id is None:
        mask_id = special(tokenizer, "mask_token_id", None, known.mask_id)
    if mask_id is None:
        raise RequestError("mask_id: expected the mask token's id, got none", "from_torch(…, mask_id=126336)")
    text, place = tokenizer_json(tokenizer)
    module = TorchModel(
        model, int(mask_id), shift_name(shift, known.shift), known.call, device, dtype, batch_tokens, timed, forward
    )
    limits = [own(name) for name in ("max_sequence_length", "max_position_embeddings", "n_positions", "model_length")]
    limit = max_len or next((limit for limit in limits if isinstance(limit, int)), None) or 4096
    fits = [id for id in known.eos_ids if id < module.vocab_size]
    ends = id_list(special(tokenizer, "eos_token_id", eos_id, own("eos_token_id")))
    if eos_id is None and (not ends or set(ends) & set(fits)):
        ends = ends + [id for id in fits if id not in ends]
    begin = special(tokenizer, "bos_token_id", bos_id, own("bos_token_id"))
    if begin is None and known.bos_id is not None and known.bos_id < module.vocab_size:
        begin = known.bos_id
    engine = _treasure.Engine.own(
        text, place=place, vocab_size=module.vocab_size, mask_id=int(mask_id), max_len=limit,
        time_agnostic=not module.timed, on_device=True, bos_id=begin, eos_ids=ends,
    )
    module.never = engine.never()
    remake = (_again, (from_torch, model, tokenizer, keywords))
    return Treasure(engine, {"model": "own"}, module, remake, chat or _chat_of(tokenizer) or known.chat)


def _family(preset: Optional[str], config: Any) -> Optional[str]:
    if preset is not None:
        if preset not in presets:
            raise RequestError(f"preset: expected one of {', '.join(presets)}, got {preset!r}")
        return preset
    kind = getattr(config, "model_type", None)
    return next((name for name, known in presets.items() if kind in known.model_types), None)


def _chat_of(tokenizer: Any) -> Optional[Callable[[List[Dict[str, str]]], str]]:
    """The tokenizer's own chat template, without the BOS that the search puts in front."""
    if not getattr(tokenizer, "chat_template", None):
        return None

    def chat(messages: List[Dict[str, str]]) -> str:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        begin = getattr(tokenizer, "bos_token", None)
        return text[len(begin) :] if begin and text.startswith(begin) else text

    return chat
