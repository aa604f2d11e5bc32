"""Models as functions, refinement, comparison, likelihoods, processes."""

import json
import math
import multiprocessing
import os
import pickle
import re

import pytest
from conftest import ROOT, timeless

import treasure

SHORT = dict(length=10, min_length=5, seed=2)
WORDS = ["<mask>", "<end>", "a", "b", "c", "d"]


def tokenizer():
    """A tokenizer of single letters."""
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None,
        "added_tokens": [
            {"id": id, "content": WORDS[id], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for id in (0, 1)
        ],
        "model": {"type": "WordLevel", "vocab": {word: id for id, word in enumerate(WORDS)}, "unk_token": "a"},
    })


@pytest.fixture
def letters(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer())
    return str(path)


def alphabet(batch):
    """The likeliest letter goes round with the position."""
    return [[[5.0 if id - 2 == place % 4 else 0.0 for id in range(len(WORDS))] for place in range(len(ids))] for ids in batch]


def test_a_function_is_searched(letters):
    own = treasure.from_callable(alphabet, letters, mask_id=0, bos_id=1, eos_id=1)
    greedy = own.generate("a", reward="regex:a", method="greedy", length=6, min_length=6)
    # BOS and the prompt stand at positions 0 and 1.
    assert re.sub(" ", "", greedy.continuation) == "cdabcd"
    best = own.generate("a", reward=lambda texts: [float(text.count("b")) for text in texts], beam_width=4, length=6, min_length=6)
    assert best.reward == 6.0
    shown = own.predict("a [MASK] [MASK]", top=1)
    assert [one.top[0].token for one in shown] == ["c", "d"]
    assert "alphabet" in repr(own)


def test_shapes_of_a_function_are_checked(letters):
    cases = [
        (lambda batch: [], "expected logits of"),
        (lambda batch: [[[0.0] * 6] for _ in batch], "rows, one a position"),
        (lambda batch: [[[0.0] * 5 for _ in ids] for ids in batch], "logits a position"),
    ]
    for function, words in cases:
        own = treasure.from_callable(function, letters, mask_id=0)
        with pytest.raises(treasure.ModelError, match=words):
            own.generate("a", reward="regex:a", **SHORT)
    own = treasure.from_callable(lambda batch: [[[math.nan] * 6 for _ in ids] for ids in batch], letters, mask_id=0)
    with pytest.raises(treasure.ModelError, match="no number"):
        own.generate("a", reward="regex:a", **SHORT)
    with pytest.raises(treasure.RequestError, match="mask_id"):
        treasure.from_callable(alphabet, letters, mask_id=9, vocab_size=6)
    with pytest.raises(treasure.ModelError):
        treasure.from_callable(alphabet, "/nowhere", mask_id=0)


def test_exceptions_in_a_model_reach_the_caller(letters):
    def broken(batch):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        treasure.from_callable(broken, letters, mask_id=0).generate("a", reward="regex:a", **SHORT)


def test_times_and_shifts(letters):
    seen = []

    def timed(batch, times):
        seen.extend(times)
        return alphabet(batch)

    own = treasure.from_callable(timed, letters, mask_id=0, bos_id=1, eos_id=1, timed=True, shift="first-given")
    found = own.generate("a", reward="regex:a", method="greedy", length=4, min_length=4)
    assert re.sub(" ", "", found.continuation) == "bcda" and seen and all(0 <= time <= 1 for time in seen)


def test_refinement_never_gets_worse_and_keeps_what_it_must(t):
    text = "The old dog was very sad and cried all day."
    better = t.refine(text, reward="sentiment=positive", rounds=2, seed=1)
    assert better.before == text and better.reward >= better.reward_before and better.method == "refine"
    kept = t.refine(text, reward="sentiment=positive", keep="old dog|all day", rounds=2, seed=1)
    assert "old dog" in kept.text and "all day" in kept.text and kept.reward >= kept.reward_before
    several = t.refine([text, "It was a bad cat."], reward="cola", rounds=1)
    assert [one.before for one in several] == [text, "It was a bad cat."]
    same = t.refine(text, reward="regex:dog", rounds=1)
    assert same.text == text and same.reward == 1.0
    with pytest.raises(treasure.RequestError, match="keep"):
        t.refine(text, keep="(", reward="cola")
    with pytest.raises(treasure.RequestError, match="all of the text"):
        t.refine(text, keep=".*", reward="cola")


def test_methods_are_compared_at_one_budget(t, cli):
    ours = t.compare("The old dog", methods=["treasure", "bon", "fhs"], reward="cola", length=10, min_length=5)
    flags = ["--methods", "treasure,bon,fhs", "--reward", "cola", "--length", "10", "--min-length", "5"]
    theirs = cli("compare", "The old dog", *flags)
    assert [timeless(row) for row in ours.to_dicts()] == [timeless(row) for row in theirs]
    with pytest.raises(treasure.RequestError):
        t.compare("A", methods=["treasure", "treasure"])
    with pytest.raises(treasure.RequestError):
        t.compare("A", match="money")


def test_likelihoods_prefer_the_likelier_text(t):
    likely, unlikely = t.loglikelihood([("Once upon a", " time"), ("Once upon a", " zebra")], samples=4)
    assert likely.logprob > unlikely.logprob and likely.greedy and not unlikely.greedy
    assert likely.tokens >= 1 and likely.nfe >= 1
    assert t.loglikelihood([("Once upon a", " time")], samples=4)[0] == likely


def _child(queue, t):
    queue.put(t.generate("The old dog", reward="cola", **SHORT).text)


def test_a_model_travels_to_another_process(t):
    assert pickle.loads(pickle.dumps(t)).predict("The [MASK]", top=1) == t.predict("The [MASK]", top=1)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_child, args=(queue, t))
    process.start()
    text = queue.get(timeout=120)
    process.join()
    assert text == t.generate("The old dog", reward="cola", **SHORT).text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_is_refused_with_a_hint(t):
    t.generate("A", method="fhs", reward="regex:a", length=2, min_length=1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            t.generate("A", method="fhs", reward="regex:a", length=2, min_length=1)
            os.write(writer, b"ran")
        except treasure.Error as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 10000).decode()
    os.waitpid(child, 0)
    assert "forked" in said and "spawn" in said


def test_a_directory_is_a_model():
    own = treasure.load(ROOT / "assets" / "pocket" / "denoiser")
    pocket = treasure.load("pocket")
    assert own.generate("A", reward="cola", **SHORT).text == pocket.generate("A", reward="cola", **SHORT).text
