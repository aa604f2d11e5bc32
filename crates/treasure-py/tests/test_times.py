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
    import treasure

    stamps = []

    def reward(texts):
        begin = time.perf_counter()
        made = [float(len(text)) for text in texts]
        stamps.append((begin, time.perf_counter()))
        return made

    texts = [f"The old dog and {n} more" for n in range(4000)]
    t.score(texts, reward=treasure.reward(reward, batch_size=8))
    # From the end of one batch to the beginning of the next: two threads, two conversions, the split into prompts.
    gaps = [(after[0] - before[1]) * 1e6 for before, after in zip(stamps, stamps[1:])]
    print(f"\n{len(stamps)} batches of 8, {statistics.median(gaps):.1f} µs each beside the function's own time")
    assert statistics.median(gaps) <= 50
