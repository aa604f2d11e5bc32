"""What Python costs: a search through it beside the command line's own, and a function beside its own time."""

import statistics
import time

import pytest

pytestmark = pytest.mark.times
OPTIONS = dict(reward="sentiment=negative", length=48, beam_width=5, tree_width=2)
FLAGS = ["--reward", "sentiment=negative", "--length", "48", "--beam-width", "5", "--tree-width", "2"]


def test_a_search_takes_the_command_lines_time(t, cli):
    ours, theirs, walls = [], [], []
    for seed in range(7):
        theirs.append(cli("generate", "The old dog", *FLAGS, "--seed", str(seed))[0]["cost"]["seconds"])
        begin = time.perf_counter()
        found = t.generate("The old dog", seed=seed, **OPTIONS)
        walls.append(time.perf_counter() - begin)
        ours.append(found.cost.seconds)
    ratios = [wall / their for wall, their in zip(walls, theirs)]
    print(f"\nPython {statistics.median(walls):.3f} s (search {statistics.median(ours):.3f}), command line "
          f"{statistics.median(theirs):.3f} s, ratio {statistics.median(ratios):.3f}")
    assert statistics.median(ratios) <= 1.03


def test_a_function_costs_fifty_microseconds_a_batch(t):
    spent, batches = [0.0], [0]

    def reward(texts):
        begin = time.perf_counter()
        made = [float(len(text)) for text in texts]
        spent[0] += time.perf_counter() - begin
        batches[0] += 1
        return made


    texts = [f"The old dog and {n} more" for n in range(2000)]
    one = __import__("treasure").reward(reward, batch_size=8)
    t.score(texts, reward=one)
    batches[0], spent[0] = 0, 0.0
    begin = time.perf_counter()
    t.score(texts, reward=one)
    whole = time.perf_counter() - begin
    rule = time.perf_counter()
    t.score(texts, reward="length:1..9")
    rule = time.perf_counter() - rule
    each = (whole - spent[0] - rule) / batches[0] * 1e6
    print(f"\n{batches[0]} batches of 8, {each:.1f} µs each beside the function's own time")
    assert each <= 50
