"""How the cost of a search step grows with b, m and L, how that of a text falls with the texts in flight, and what the
exact savings leave out, on the pocket models."""

import argparse
import os
import subprocess
import time

from run import Side

REWARDS = ["sentiment=negative", "perplexity"]


def search(args, reward, beam, width, length, options=(), rounds=None, **request):
    """The fastest of some searches after a short one that warms up."""
    command = [args.binary, "bench", "--searches", "-", "--quiet", "--threads", str(args.threads), "--reward", reward]
    command += ["--beam-width", str(beam), "--tree-width", str(width), "--length", str(length), *options]
    side = Side(command, dict(os.environ))
    side.read()  # the peak of the machine
    side.ask(dict(prompt="Once upon a time", steps=2))
    best = min((side.ask(dict(prompt="Once upon a time", **request)) for _ in range(rounds or args.rounds)), key=lambda r: r["seconds"])
    best["memory_mb"] = round(side.peak_memory() / 1e6)
    side.close()
    return best


def growth(args):
    print("| reward | b | m | L | ms a step | GFLOP a step | model calls | reward calls | MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    sizes = [(5, 1, 48), (5, 2, 48), (5, 4, 48), (5, 8, 48), (5, 16, 48), (2, 2, 48), (10, 2, 48), (20, 2, 48)]
    sizes += [(5, 2, 24), (5, 2, 96), (5, 2, 128), (20, 16, 128)]
    skip, steps = 4, 6  # the beam is full after a few steps
    for reward in REWARDS:
        for beam, width, length in sizes[:2] if args.quick else sizes:
            row = search(args, reward, beam, width, length, skip=skip, steps=steps)
            done = row["denoiser_operations"] + row["reward_operations"]
            print(
                f"| {reward} | {beam} | {width} | {length} | {row['seconds'] * 1e3 / steps:.1f} | {done / 1e9 / steps:.2f} "
                f"| {row['cost']['nfe']} | {row['cost']['reward_calls']} | {row['memory_mb']} |",
                flush=True,
            )


def in_flight(args):
    print("\n| reward | texts in flight | seconds a text |")
    print("|---|---|---|")
    for reward in REWARDS:
        for count in (1, 2) if args.quick else (1, 2, 4, 8):
            command = [args.binary, "generate", "Once upon a time", "--reward", reward, "--samples", str(count), "--json"]
            command += ["--quiet", "--threads", str(args.threads), "--length", "12" if args.quick else "48"]
            times = []
            for _ in range(args.rounds):
                begin = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                times.append(time.perf_counter() - begin)
            print(f"| {reward} | {count} | {min(times) / count:.2f} |", flush=True)


def savings(args):
    print("\n| reward | b | m | L | without | model calls | reward calls | denoiser GFLOP | reward GFLOP |")
    print("|---|---|---|---|---|---|---|---|---|")
    for reward in REWARDS:
        for beam, width, length in [(5, 2, 12)] if args.quick else [(5, 2, 48), (20, 16, 24)]:
            ways = [("nothing", [], {}), ("memory", [], dict(memory=False))]
            ways.append(("memory, shared prefixes and inputs", ["--reward-batch", "1"], dict(memory=False)))
            for name, options, request in ways:
                row = search(args, reward, beam, width, length, options, 1, **request)
                print(
                    f"| {reward} | {beam} | {width} | {length} | {name} | {row['cost']['nfe']} | {row['cost']['reward_calls']} "
                    f"| {row['denoiser_operations'] / 1e9:.1f} | {row['reward_operations'] / 1e9:.1f} |",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="target/release/treasure")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2, help="searches a line; the fastest counts")
    parser.add_argument("--quick", action="store_true", help="few sizes, short searches")
    args = parser.parse_args()
    growth(args)
    in_flight(args)
    savings(args)


if __name__ == "__main__":
    main()
