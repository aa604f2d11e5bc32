"""What Python costs: a search through it beside the command line's own, and a function beside its own time."""

import os
import statistics
import subprocess
import sys
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


PROGRAM = """
import sys, treasure
treasure.load("pocket", threads=1).generate("The old dog", samples=int(sys.argv[1]), in_flight=1, **{options})
"""


def processor(command):
    """The processor seconds of a process."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime


def test_a_search_takes_the_command_lines_processor_time():
    """One thread, and what five searches take beyond one: good on a machine that is not quiet, too."""
    binary, ratios = os.environ["TREASURE_CLI"], []
    for _ in range(5):
        theirs = [processor([binary, "generate", "The old dog", *FLAGS, "--samples", n, "--threads", "1", "--in-flight", "1"]) for n in "15"]
        ours = [processor([sys.executable, "-c", PROGRAM.format(options=OPTIONS), n]) for n in "15"]
        ratios.append((ours[1] - ours[0]) / (theirs[1] - theirs[0]))
    print(f"\nprocessor seconds of four searches, Python over command line: {statistics.median(ratios):.3f} of {sorted(round(r, 3) for r in ratios)}")
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


def test_trls_signature_costs_fifty_microseconds_a_batch(t):
    """The same short search with a built-in rule and with a function that says the same, in turns."""
    stamps = []

    def reward(prompts, completions, **kwargs):
        begin = time.perf_counter()
        made = [1.0 if "zebra" in completion else 0.0 for completion in completions]
        stamps.append(time.perf_counter() - begin)
        return made

    # Said on both sides, since defaults depend on what is known of a reward.
    options = dict(order="confidence", prior=0.02, variety=1.0, min_p=0.0, widen=0, select="top", beam_width=5, tree_width=2)
    options.update(length=24, min_length=24, tree=False)

    def timed(reward, seed):
        begin = time.perf_counter()
        found = t.generate("The old dog", reward=reward, seed=seed, in_flight=1, **options)
        return time.perf_counter() - begin, found

    added = []
    for seed in range(-5, 150):
        stamps.clear()
        pair = [(reward, "contains:zebra"), ("contains:zebra", reward)][seed % 2]
        taken = {callable(one): timed(one, abs(seed)) for one in pair}
        (own, mine), (plain, theirs) = taken[True], taken[False]
        # The same search: the same text, model calls and reward calls.
        assert (mine.text, mine.cost.nfe, mine.cost.reward_calls) == (theirs.text, theirs.cost.nfe, theirs.cost.reward_calls)
        if seed >= 0:  # the others warm up
            added.append(((own - sum(stamps) - plain) / len(stamps) * 1e6, own, plain, len(stamps)))
    each = sorted(one[0] for one in added)
    median = statistics.median(each)
    print(f"\nprompts, completions, **kwargs in a search: {median:.1f} µs added to each of {added[0][3]} batches "
          f"(quartiles {each[len(each) // 4]:.1f} to {each[3 * len(each) // 4]:.1f}; search {statistics.median(a[1] for a in added) * 1e3:.1f} ms, "
          f"with a built-in rule {statistics.median(a[2] for a in added) * 1e3:.1f} ms)")
    assert median <= 50
