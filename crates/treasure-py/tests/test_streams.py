"""Streams, streamers, progress, interruption, logging, what a notebook shows."""

import logging
import os
import signal
import sys
import threading
import time
import xml.etree.ElementTree

import pytest
from conftest import ROOT

import treasure

SHORT = dict(length=12, min_length=6, seed=3)


def interrupt_after(seconds):
    """Ctrl-C, as a terminal sends it."""
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def test_a_stream_gives_a_frame_a_step_and_ends_with_the_answer(t):
    frames = list(t.stream("The old dog", reward="cola", **SHORT))
    answer = t.generate("The old dog", reward="cola", **SHORT)
    assert len(frames) == frames[0].steps + 1 and [frame.step for frame in frames[:-1]] == list(range(1, len(frames)))
    masks = [frame.masks_left for frame in frames]
    assert masks == sorted(masks, reverse=True) and masks[-1] == 0
    last = frames[-1]
    assert last.text == answer.text and last.value == answer.reward and last.sample.tokens == answer.tokens
    assert all(frame.sample is None for frame in frames[:-1])
    assert "▒" in frames[0].text and frames[0].text.startswith("The old dog")
    assert frames[0].tokens[0].text and frames[0].to_dict()["masks_left"] == masks[0]


def test_a_stream_works_with_a_function_and_can_be_left(t):
    calls = []

    def reward(texts):
        calls.append(len(texts))
        return [float(len(text)) for text in texts]

    for frame in t.stream("The old dog", reward=reward, **SHORT):
        if frame.step == 2:
            break
    seen = len(calls)
    time.sleep(0.1)
    assert len(calls) == seen
    assert list(t.stream("The old dog", reward=reward, **SHORT))[-1].masks_left == 0


class Kept:
    """A streamer that remembers what it was told."""

    def __init__(self):
        self.said = []

    def put(self, value):
        self.said.append(("put", value.tolist() if hasattr(value, "tolist") else value))

    def put_draft(self, value):
        self.said.append(("draft", value.tolist() if hasattr(value, "tolist") else value))

    def end(self):
        self.said.append(("end", None))


def test_streamers_are_fed(t):
    class Plain:
        put = end = lambda self, *a: None

    streamer = Kept()
    found = t.generate("The old dog", reward="cola", streamer=streamer, **SHORT)
    kinds = [kind for kind, _ in streamer.said]
    assert kinds[0] == "put" and kinds[-1] == "end" and kinds[-2] == "put" and kinds.count("draft") >= 6
    assert streamer.said[-2][1] == found.tokens
    assert all(isinstance(id, int) for id in streamer.said[1][1][0])
    assert t.generate("The old dog", reward="cola", streamer=Plain(), **SHORT).text == found.text


def test_a_text_streamer_of_transformers_prints_the_answer(t, capsys):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "assets" / "pocket" / "denoiser" / "tokenizer.json"))
    found = t.generate("The old dog", reward="cola", streamer=transformers.TextStreamer(tokenizer, skip_prompt=True), **SHORT)
    printed = capsys.readouterr().out
    assert printed.strip() == found.continuation.strip() != ""
    again = t.generate("The old dog", reward="cola", streamer=transformers.TextStreamer(tokenizer), **SHORT)
    assert again.text == found.text and capsys.readouterr().out.split() == found.text.split()
    # The one for threads, as a page would read it.
    iterator = transformers.TextIteratorStreamer(tokenizer, skip_prompt=True)
    t.generate("The old dog", reward="cola", streamer=iterator, **SHORT)
    assert "".join(iterator) == printed.rstrip("\n")


def test_progress_is_shown(t, capsys):
    t.generate(["A", "B"], reward="cola", progress=True, **SHORT)
    assert capsys.readouterr().err.strip()


def interrupts_itself(after):
    """A reward that sends Ctrl-C with its so many-th batch: the same on every machine."""
    batches = [0]

    def reward(texts):
        batches[0] += 1
        if batches[0] == after:
            os.kill(os.getpid(), signal.SIGINT)
        return [float(len(text)) for text in texts]

    return reward


def test_an_interrupt_keeps_the_best_so_far(t):
    reward = interrupts_itself(5)
    found = t.generate("The old dog", reward=reward, length=60, min_length=30)
    assert found.stopped == "interrupted" and found.text.startswith("The old dog") and found.reward > 0


def test_an_interrupt_gives_a_streamer_the_best_so_far(t):
    streamer = Kept()
    found = t.generate("The old dog", reward=interrupts_itself(5), streamer=streamer, length=60, min_length=30)
    assert found.stopped == "interrupted" and found.text.startswith("The old dog") and found.reward > 0
    assert streamer.said[-2:] == [("put", found.tokens), ("end", None)]
    assert 0 < [kind for kind, _ in streamer.said].count("draft") < 60


def test_a_second_interrupt_goes_past_a_streamer(t):
    def twice(texts):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
        return [0.0] * len(texts)

    streamer = Kept()
    with pytest.raises(KeyboardInterrupt):
        t.generate("The old dog", reward=twice, streamer=streamer, **SHORT)
    assert ("end", None) not in streamer.said


def test_an_interrupt_of_several_keeps_what_is_there(t):
    reward = interrupts_itself(30)
    found = t.generate([f"The old dog {n}" for n in range(20)], reward=reward, in_flight=1, length=10, min_length=5)
    assert 0 < len(found) < 20


def test_a_second_interrupt_is_raised(t):
    def stuck(texts):
        time.sleep(30)

    interrupt_after(0.3)
    interrupt_after(0.8)
    begun = time.time()
    with pytest.raises(KeyboardInterrupt):
        t.generate("The old dog", reward=stuck, **SHORT)
    assert time.time() - begun < 10


def test_the_lock_is_free_while_a_search_runs(t):
    count, stop = [0], threading.Event()

    def spin():
        while not stop.is_set():
            count[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=spin)
    thread.start()
    t.generate("The old dog", reward="cola", length=20, min_length=10)
    stop.set()
    thread.join()
    assert count[0] > 20


def test_searches_may_run_on_several_threads(t):
    found = {}

    def work(name):
        found[name] = t.generate(name, reward=lambda texts: [float(len(text)) for text in texts], **SHORT).text

    threads = [threading.Thread(target=work, args=(name,)) for name in ("A", "B", "C")]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(found) == ["A", "B", "C"] and all(text.startswith(name) for name, text in found.items())


def test_plans_and_notes_are_logged(t, caplog):
    with caplog.at_level(logging.INFO, logger="treasure"):
        t.generate("The old dog", reward="cola", **SHORT)
    assert any(record.message.startswith("plan: pocket") for record in caplog.records)


def test_a_notebook_shows_text_reward_cost_and_tree(t):
    found = t.generate("The <old> dog", reward="cola", answer="final", **SHORT)  # the answer is then a leaf
    html = found._repr_html_()
    assert "The &lt;old&gt; dog" in html and "<svg" in html and "<script" not in html and "reward <b>" in html
    assert found.tree and {"id", "parent", "value", "kept", "text"} <= set(found.tree[-1])
    page = xml.etree.ElementTree.fromstring(html)  # well-formed: every node with what it is, the kept ones with their text
    nodes = page.findall(".//g")
    assert len(nodes) == len(found.tree) and all("masks left" in node.get("aria-label") for node in nodes)
    whole = [node.findall("text")[1].text for node in nodes if " 0 masks left" in node.get("aria-label") and node.findall("text")[1].text]
    assert any(found.continuation.strip() in text.replace("  ", " ") for text in whole)
    several = t.generate(["A", "B"], reward="cola", **SHORT)
    assert several[0].tree is None and "<table>" in several._repr_html_()
    assert t.generate(["A"], reward="cola", tree=True, **SHORT)[0].tree


def test_a_trace_is_json_lines(t):
    import json

    found = t.generate("A", reward="cola", trace=True, **SHORT)
    lines = [json.loads(line) for line in found.trace.splitlines()]
    assert lines[0]["schema"] == "treasure-trace" and lines[-1]["event"] == "texts"


def test_rows_become_a_table(t):
    pandas = pytest.importorskip("pandas")
    found = t.generate(["A", "B"], reward="cola + 0.5*perplexity", judge="perplexity", samples=2, **SHORT).to_pandas()
    assert isinstance(found, pandas.DataFrame) and len(found) == 4
    assert {"text", "reward", "nfe", "seconds", "reward:cola", "judge:perplexity", "dist2"} <= set(found.columns)
    assert t.score(["A", "B"], reward="cola").to_pandas().shape[0] == 2


def test_the_module_says_what_it_is():
    assert treasure.__version__ and "treasure" in treasure.methods and sys.modules["treasure._treasure"]
