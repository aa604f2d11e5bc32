#!/usr/bin/env python3
"""Ours against ours: this tree and an earlier commit, the same work in turns.

  bench/before/run.py                         the commit before the second edition, every case, 9 rounds
  bench/before/run.py --commit HEAD~20 --only search --rounds 15
  bench/before/run.py --threads 1 --cpu       CPU time instead of the clock: for a machine that is not quiet
  bench/before/run.py --large FOLDER          on dit-12 and roberta-12 there (bench/search/random_models.py writes them)

Builds both binaries in release mode (the earlier one in target/before, kept for the next time), then lets them take
turns, round by round, in a changing order; the first round warms up. `forward` and `reward` are lines of
`treasure bench`; `search` is `treasure bench --searches` under the paper's conventions, the same requests for both.
Random keys may differ between the commits, so that searches may take other turns: what is compared is seconds for a
billion operations of matrix products, which both count; behind them stands how many more of those the searches before
needed in all. `ratio` is before over now, medians of the rounds: above 1 is faster now. Exits with 1 where a case is
slower than 0.97 of before. `memory` is the most that a process held.
Nothing but Python 3, git and cargo is needed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TREE = ROOT / "target" / "before" / "tree"
#: Both sides read these files, whatever is embedded in either.
POCKET = ROOT / "assets" / "pocket"
WIDE = ["--beam-width", "20", "--tree-width", "8", "--length", "16", "--min-length", "8"]
SEARCHES = {
    "search perplexity b=5 m=2": ["--reward", "ppl:{pocket}/scorer"],
    "search perplexity b=20 m=8": ["--reward", "ppl:{pocket}/scorer", *WIDE],
    "search sentiment b=5 m=2": ["--reward", "hf:{pocket}/judge-sentiment#negative"],
    "search rule b=20 m=8": ["--reward", "contains:dog,sad", *WIDE],
}
PROMPTS = ["The old dog", "Once upon a time", "In the morning, she"]
LARGE = {"search classifier b=5 m=2": ["--reward", "hf:{reward}#negative", "--length", "60", "--min-length", "60"]}
#: One prompt, three steps after the first.
FEW = {"skip": 1, "steps": 3}


def build(root: Path, target: Path) -> Path:
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "-p", "treasure-cli"],
        cwd=root, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(target)},
    )
    return target / "release" / "treasure"


def earlier(commit: str) -> Path:
    if not TREE.exists():
        TREE.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "worktree", "add", "--detach", str(TREE), commit], cwd=ROOT, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=TREE, check=True)
    return build(TREE, TREE.parent / "build")


def run(command: list, given: str = "") -> tuple:
    """The answers of a process, the CPU seconds it took and the most memory it held."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL, text=True)
        process.stdin.write(given)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        rows = [json.loads(line) for line in out]
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {process.returncode}")
    return rows, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def papers(binary: Path) -> list:
    """The paper's conventions: a preset where there are others, the only ones of earlier programs."""
    told = subprocess.run([binary, "bench", "--help"], capture_output=True, text=True, check=True).stdout
    return ["--preset", "paper"] if "plain, paper" in told else []


def lines(binary: Path, args: argparse.Namespace) -> tuple:
    command = [binary, "bench", "--json", "--quiet", "--rounds", "3", "--threads", str(args.threads)]
    if args.large:
        command += ["--model", args.large / "dit-12", "--reward", f"hf:{args.large}/roberta-12#negative"]
    else:
        command += ["--model", POCKET / "denoiser", "--reward", f"ppl:{POCKET}/scorer"]
    rows, _, memory = run(command + papers(binary))
    kept = [row for row in rows if row["what"] != "search step"]
    return {f"{row['what']} batch={row['batch']}": row["seconds"] for row in kept}, memory


def searches(binary: Path, flags: list, seed: int, args: argparse.Namespace) -> tuple:
    command = [binary, "bench", "--searches", "-", "--quiet", "--threads", str(args.threads)]
    command += ["--model", args.large / "dit-12" if args.large else POCKET / "denoiser"]
    command += [flag.format(pocket=POCKET, reward=f"{args.large}/roberta-12") for flag in flags]
    prompts, few = (PROMPTS[1:2], FEW) if args.large else (PROMPTS, {})
    asked = "".join(json.dumps({"prompt": prompt.lower() if few else prompt, "seed": seed, **few}) + "\n" for prompt in prompts)
    rows, cpu, memory = run(command + papers(binary), asked)
    rows = [row for row in rows if row["what"] == "search"]
    operations = sum(row["denoiser_operations"] + row["reward_operations"] for row in rows)
    seconds = cpu if args.cpu else sum(row["seconds"] for row in rows)
    return seconds / (operations / 1e9), operations / 1e9, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="722f60c")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no round after so long")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--large", type=Path, metavar="FOLDER")
    parser.add_argument("--binaries", nargs=2, metavar=("BEFORE", "NOW"), help="built already")
    args = parser.parse_args()
    both = args.binaries or [earlier(args.commit), build(ROOT, ROOT / "target")]
    taken, most, work = {}, [0, 0], {}

    def note(case: str, side: int, value: float) -> None:
        if args.only in case:
            taken.setdefault(case, ([], []))[side].append(value)

    began, rounds = time.monotonic(), 0
    for round in range(args.rounds + 1):
        if time.monotonic() - began > args.seconds:
            break
        rounds = round
        sides = (0, 1) if round % 2 else (1, 0)
        if not args.cpu:
            for side in sides:
                found, memory = lines(both[side], args)
                most[side] = max(most[side], memory)
                for case, seconds in found.items():
                    if round:
                        note(case, side, seconds)
        for case, flags in (LARGE if args.large else SEARCHES).items():
            for side in sides if args.only in case else ():
                value, operations, memory = searches(both[side], flags, round, args)
                most[side] = max(most[side], memory)
                work.setdefault(case, [0, 0])[side] += operations
                if round:
                    note(case, side, value)
    slower = []
    print(f"{'case':32} {'before':>10} {'now':>10} {'ratio':>7}")
    for case, (before, now) in taken.items():
        a, b = statistics.median(before), statistics.median(now)
        spent = f"   operations {work[case][0] / work[case][1]:.3f}" if case in work else ""
        print(f"{case:32} {a:10.5f} {b:10.5f} {a / b:7.3f}{spent}")
        if a / b < 0.97:
            slower.append(case)
    print(f"{'memory (MB)':32} {most[0] / 1e6:10.1f} {most[1] / 1e6:10.1f} {most[0] / max(most[1], 1):7.3f}")
    print(f"{rounds} rounds, {args.threads} threads, {'CPU time' if args.cpu else 'wall clock'}, before = {args.commit}")
    if slower:
        sys.exit(f"slower than 0.97 × before: {', '.join(slower)}")


if __name__ == "__main__":
    main()
