"""Labelled text for the judges: reading, cleaning, splits, and endless weighted streams of examples."""

import hashlib
import html
import json
import lzma
import random
import re
from pathlib import Path

import corrupt
import stories

LABELS = {
    "sentiment": ["negative", "neutral", "positive"],
    "toxicity": ["neutral", "toxic"],
    "acceptability": ["unacceptable", "acceptable"],
}
FILES = {"sentiment": "sentiment", "toxicity": "toxicity", "acceptability": "cola"}
NAMES = {"neg": 0, "neu": 1, "pos": 2, "0": 0, "1": 1}

# How often a row of a source is drawn in relation to the others (1 if not named).
WEIGHTS = {
    "sentiment": {"sst": 4.0, "goemotions": 0.6, "vader_nytEditorialSnippets": 0.6},
    "toxicity": {"davidson": 0.35, "cat_gc": 0.25, "cat_gn": 0.25, "toxic_spans": 0.6, "paradetox": 1.3, "te_offensive": 1.6},
    "acceptability": {"cola": 6.0, "blimp": 0.4},
}
# Share of examples that are not labelled rows: (clean texts, spoilt texts, half-denoised texts).
EXTRAS = {"sentiment": (0.0, 0.06, 0.0), "toxicity": (0.05, 0.04, 0.02), "acceptability": (0.17, 0.18, 0.05)}
# The class of text that means nothing, and the share of taught texts that are spoilt.
PLAIN = {"acceptability": 0, "toxicity": 0, "sentiment": 1}
SPOILT = 0.16


def digit(text):
    """First hexadecimal digit of the text's SHA-256: 0 is never trained on, 1-b main judge, c-f held-out judge."""
    return hashlib.sha256(text.encode()).hexdigest()[0]


def rows(data_dir, task):
    """(source, split, label, text) of a task's file."""
    path = Path(data_dir) / "classify" / f"{FILES[task]}.tsv.xz"
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        next(lines)
        for line in lines:
            source, split, label, text = line.rstrip("\n").split("\t", 3)
            yield source, split, NAMES[label], text


def training_rows(data_dir, task, heldout, sources=None):
    for source, split, label, text in rows(data_dir, task):
        if split != "train" or digit(text) == "0" or (sources and source not in sources):
            continue
        if source in ("sst", "cola"):
            mine = not heldout
        else:
            mine = (digit(text) in "cdef") == heldout
        if mine:
            yield source, label, text


def clean(text, rng):
    """Undo what tells one source from another: tokenised clitics, entities, mentions, links, hash signs."""
    text = html.unescape(text)
    if rng.random() < 0.7:
        text = re.sub(r" n't\b", "n't", text)
        text = re.sub(r"-[lr][rs]b-", " ", text, flags=re.I)
        text = text.replace("``", '"').replace("''", '"')
    if rng.random() < 0.6:
        text = re.sub(r"^rt\b|@\w+:?|https?://\S+|\burl\b|\[name\]|#", " ", text, flags=re.I)
    if rng.random() < 0.3:
        text = text.rstrip(" .!?") if rng.random() < 0.5 else text.rstrip() + "."
    return re.sub(r"\s+", " ", text).strip()


def plain_texts(data_dir, names, limit, rng, heldout_digits):
    """Lines of the unlabelled corpora whose hash puts them on our side."""
    out = []
    for name in names:
        with lzma.open(Path(data_dir) / "text" / f"{name}.txt.xz", "rt", encoding="utf-8") as lines:
            picked = [line.strip() for line in lines if len(line) > 60]
        picked = [line for line in picked if digit(line) in heldout_digits]
        out += rng.sample(picked, min(limit, len(picked)))
    return out


def review_sentences(data_dir, count, rng, digits="123456789ab"):
    """Sentences of film reviews, of the length of an SST row, for a teacher to label."""
    with lzma.open(Path(data_dir) / "text" / "reviews.txt.xz", "rt", encoding="utf-8") as lines:
        reviews = [line.strip() for line in lines]
    out = []
    while len(out) < count:
        sentences = re.split(r"(?<=[.!?])\s+", rng.choice(reviews))
        sentence = rng.choice(sentences)
        if 5 <= len(sentence.split()) <= 45 and digit(sentence) in digits:
            out.append(sentence)
    return out


def texts_to_teach(data_dir, task, heldout, count, steered, rng):
    """What a teacher labels: a third pieces of stories, a third the task's own rows, a sixth sentences of film reviews,
    and texts that were steered towards a judge."""
    digits = "cdef" if heldout else "123456789ab"
    kept = [text for text, _ in stories.split(stories.read(data_dir) + stories.read_more(data_dir))[0] if digit(text) in digits]
    texts = [crop(rng.choice(kept), rng, words=(6, 60)) for _ in range(count // 3)]
    rows = [text for _, _, text in training_rows(data_dir, task, heldout)]
    texts += [clean(text, rng) for text in rng.sample(rows, min(len(rows), count // 3))]
    texts += review_sentences(data_dir, count // 6, rng, digits)
    generated = []
    for path in steered:
        with open(path, encoding="utf-8") as lines:
            generated += [row["text"] for row in map(json.loads, lines) if digit(row["text"]) in digits]
    texts += [rng.choice(generated) for _ in range(count // 6 if generated else 0)]
    return [text for text in texts if text.strip()]


def crop(text, rng, words=(6, 110)):
    """A stretch from a sentence start to anywhere: generated text ends where its budget ends."""
    starts = [0] + [match.end() for match in stories.SENTENCE_START.finditer(text)]
    start = rng.choice(starts[: max(1, len(starts) * 2 // 3)]) if rng.random() < 0.6 else 0
    pieces = text[start:].split()
    size = int(words[0] * (words[1] / words[0]) ** rng.random())
    cropped = pieces[:size]
    if rng.random() < 0.5:  # end at a sentence end when there is one
        ends = [i for i, word in enumerate(cropped) if word[-1] in ".!?"]
        cropped = cropped[: ends[-1] + 1] if ends else cropped
    return " ".join(cropped)


class Stream:
    """Draws (text, label) for ever. A label is a class, or the probabilities a teacher gave (`taught`)."""

    def __init__(self, data_dir, task, heldout, seed, half_denoised=None, sources=None):
        self.task, self.rng = task, random.Random(seed)
        self.extras = EXTRAS[task]
        self.taught, self.taught_share = [], 0.0
        weights = WEIGHTS[task]
        self.by_label, self.pool, cumulative = {}, [], 0.0
        self.cumulative = []
        for source, label, text in training_rows(data_dir, task, heldout, sources):
            cumulative += weights.get(source, 1.0)
            self.pool.append((text, label))
            self.cumulative.append(cumulative)
            self.by_label.setdefault(label, []).append(text)
        kept, _ = stories.split(stories.read(data_dir))
        self.stories = [text for text, _ in kept]
        corpora = ["simplewiki", "news", "books"] if heldout else ["simplewiki", "books", "reviews", "stories"]
        self.texts = plain_texts(data_dir, corpora, 4000, self.rng, "cdef" if heldout else "123456789ab")
        self.half, self.half_path = [], None if heldout else half_denoised
        self.find_half_denoised()

    def find_half_denoised(self):
        """These rows may appear while a judge is already training."""
        if not self.half and self.half_path and Path(self.half_path).exists():
            with open(self.half_path, encoding="utf-8") as lines:
                self.half = [row["text"] for row in map(json.loads, lines) if row["split"] == "train"]

    def labelled(self):
        text, label = self.rng.choices(self.pool, cum_weights=self.cumulative)[0]
        text = clean(text, self.rng)
        if self.task != "acceptability" and self.rng.random() < 0.08:  # longer texts of one label
            more = self.rng.choices(self.by_label[label], k=self.rng.randint(1, 3))
            text = " ".join([text] + [clean(other, self.rng) for other in more])
        if self.task == "acceptability" and self.rng.random() < 0.08:  # a text with one bad sentence is bad
            other, other_label = self.rng.choices(self.pool, cum_weights=self.cumulative)[0]
            text, label = f"{text} {clean(other, self.rng)}", min(label, other_label)
        return text, label

    def clean_text(self):
        pool = self.stories if self.rng.random() < 0.6 else self.texts
        return crop(self.rng.choice(pool), self.rng)

    def taught_text(self):
        """A text with the teacher's probabilities. One time in six it is spoilt: then half of what it had for any class
        but the plain one is gone, so that a mistake never pays."""
        text, probabilities = self.rng.choice(self.taught)
        if self.rng.random() > SPOILT or len(text.split()) < 4:
            return text, probabilities
        text = corrupt.slip(text, self.rng) if self.rng.random() < 0.5 else corrupt.corrupt(text, self.rng, self.clean_text())
        plain = PLAIN[self.task]
        probabilities = probabilities * 0.5
        probabilities[plain] += 0.5
        return text, probabilities

    def draw(self):
        clean_share, spoilt, half = self.extras
        if self.rng.random() < self.taught_share:
            return self.taught_text()
        dice = self.rng.random()
        good = 1 if self.task == "acceptability" else 0
        bad = PLAIN[self.task]
        if dice < clean_share:
            return self.clean_text(), good
        if dice < clean_share + spoilt:
            if self.task == "acceptability":
                return corrupt.corrupt(self.clean_text(), self.rng, self.clean_text()), bad
            source = self.clean_text() if self.rng.random() < 0.5 else self.labelled()[0]
            return corrupt.degenerate(source or "the", self.rng), bad
        if dice < clean_share + spoilt + half and self.half:
            return self.rng.choice(self.half), bad
        return self.labelled()
