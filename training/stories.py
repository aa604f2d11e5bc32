"""The simple-stories corpus: reading, the held-out split, and training windows."""

import hashlib
import json
import lzma
import re
from pathlib import Path

import numpy as np

from story_model import BOS

SENTENCE_START = re.compile(r"(?<=[.!?\"])\s+(?=[A-Z\"])")


def read(data_dir):
    """The first set of stories; its held-out part is what every bound is reported on."""
    return read_file(Path(data_dir) / "text" / "simple-stories.jsonl.xz")


def read_more(data_dir):
    """The second set, whose openings are as varied as prompts are."""
    return read_file(Path(data_dir) / "text" / "simple-stories-2.jsonl.xz")


def read_file(path):
    """Rows of a JSON Lines file, compressed or not."""
    with (lzma.open if str(path).endswith(".xz") else open)(path, "rt", encoding="utf-8") as lines:
        return [(row["text"], row["complete"]) for row in map(json.loads, lines)]


def is_held_out(text):
    """One story in 32, by the hash of its text; equal texts always fall on the same side."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:2], 16) < 8


def split(rows):
    kept = [row for row in rows if not is_held_out(row[0])]
    held = [row for row in rows if is_held_out(row[0])]
    return kept, held


def prompts(data_dir):
    with open(Path(data_dir) / "prompts.jsonl", encoding="utf-8") as lines:
        return [json.loads(line)["context_string"] for line in lines]


class Windows:
    """Draws token windows: mostly story starts, some sentence starts, some after two newlines."""

    def __init__(self, rows, tokenizer, seed, sentence_share=0.25, newline_share=0.15):
        self.rows = rows
        self.tokenizer = tokenizer
        self.random = np.random.default_rng(seed)
        self.sentence_share = sentence_share
        self.newline_share = newline_share
        self.order = []

    def next_row(self):
        if not self.order:
            self.order = list(self.random.permutation(len(self.rows)))
        return self.rows[self.order.pop()]

    def window(self, length):
        while True:
            text, complete = self.next_row()
            if self.random.random() < self.sentence_share:
                starts = [match.end() for match in SENTENCE_START.finditer(text)]
                starts = [start for start in starts if len(text) - start >= 2 * length]
                if starts:
                    text = text[starts[self.random.integers(len(starts))] :]
            text = text[: 8 * length]
            if self.random.random() < self.newline_share:
                text = "\n\n" + text
            ids = [BOS] + self.tokenizer.encode(text, add_special_tokens=False).ids
            if len(ids) >= length:
                return ids[:length]
            if complete:
                return ids + [BOS] * (length - len(ids))

    def batch(self, rows, length):
        return np.array([self.window(length) for _ in range(rows)], dtype=np.int64)
