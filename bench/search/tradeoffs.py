"""Reward lost against time gained by the opt-in trade-offs, on the pocket models.

Every setting runs the same searches (prompts × seeds), in turns; all texts are scored again in f32. Reward lost is relative to the gain of the exact
search over base sampling, `(exact − setting) / (exact − base)`; time gained is the exact search's seconds over the
setting's; `held` is how weights lie in memory, `bf16` and `int8` what products are computed in. Prints a table and, with `--svg FILE`, draws it.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

from run import PROMPTS, Side, own_ticks

#: Rewards that are run unless others are asked for, with a cheap one that may stand for each.
REWARDS = {
    "sentiment=negative": "hf:pocket/judge-sentiment-heldout#negative",
    "perplexity": "cola",
}


def settings(proxy):
    """Name and options of every setting; the first is the exact search."""
    yield "exact", []
    for threshold in (0.99, 0.95, 0.9, 0.8, 0.6):
        yield f"commit {threshold}", ["--commit-threshold", str(threshold)]
    for share in (0.5, 0.4, 0.3, 0.2) if proxy else ():
        yield f"screen {share}", ["--screen", proxy, "--screen-share", str(share)]
    for steps in (24, 12):
        yield f"steps {steps}", ["--steps", str(steps)]
    for every in (2, 8, 64):
        yield f"reuse {every}", ["--reuse", str(every)]
    for after in (4, 8, 16):
        yield f"settle {after}", ["--settle", str(after)]
    for held in ("f16", "int8"):
        yield f"held {held}", ["--dtype", held, "--reward-dtype", held]
    for precision in ("bf16", "int8"):
        yield precision, ["--precision", precision]
    for threshold, share in ((0.95, 0.5), (0.9, 0.25)) if proxy else ():
        both = ["--commit-threshold", str(threshold), "--screen", proxy, "--screen-share", str(share)]
        yield f"commit {threshold}, screen {share}", both


def base_rewards(args, reward):
    """Mean reward of base sampling on the same prompts and seeds."""
    values = []
    for seed in range(args.seeds):
        command = [args.binary, "generate", *args.prompts, "--method", "base", "--reward", reward, "--json", "--quiet"]
        command += ["--length", str(args.length), "--seed", str(seed), "--threads", str(args.threads)]
        rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        values += [json.loads(row)["reward"] for row in rows]
    return statistics.mean(values)


def score_again(args, reward, rows):
    """What each text is worth in f32, whatever the search scored it with."""
    command = [args.binary, "score", "--json", "--quiet", "--reward", reward, "--", *(row["text"] for row in rows)]
    scores = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    for row, score in zip(rows, scores, strict=True):
        row["reward"] = json.loads(score)["reward"]


def measure(args, reward, proxy):
    base = base_rewards(args, reward)
    sides = {}
    for name, options in settings(proxy):
        if name != "exact" and not re.search(args.only, name):
            continue
        command = [args.binary, "bench", "--searches", "-", "--quiet", "--threads", str(args.threads)]
        command += ["--reward", reward, "--length", str(args.length), "--beam-width", str(args.beam)]
        sides[name] = Side(command + ["--tree-width", str(args.width)] + options, dict(os.environ))
        sides[name].read()  # the peak of the machine
        sides[name].ask(dict(prompt=PROMPTS[0], steps=2))  # warms up
    results = {name: [] for name in sides}
    for seed in range(args.seeds):
        for prompt in args.prompts:
            for name, side in sides.items():
                before = own_ticks([side])
                result = side.ask(dict(prompt=prompt, seed=seed))
                result["cpu"] = (own_ticks([side]) - before) / os.sysconf("SC_CLK_TCK")
                results[name].append(result)
    for side in sides.values():
        side.close()
    for rows in results.values():
        score_again(args, reward, rows)
    clock = "cpu" if args.cpu else "seconds"
    total = lambda rows: sum(row[clock] for row in rows)
    mean = lambda rows: statistics.mean(row["reward"] for row in rows)
    exact = results["exact"]
    gain = mean(exact) - base
    for name, rows in results.items():
        pairs = [x["reward"] - y["reward"] for x, y in zip(exact, rows)]
        error = statistics.stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else 0.0
        yield dict(
            reward=reward, setting=name, searches=len(rows), base=round(base, 4), mean=round(mean(rows), 4),
            lost=round((mean(exact) - mean(rows)) / gain, 4), lost_error=round(error / abs(gain), 4),
            gained=round(total(exact) / total(rows), 3), seconds=round(total(rows), 3),
            nfe=sum(row["cost"]["nfe"] for row in rows), reward_calls=sum(row["cost"]["reward_calls"] for row in rows),
        )


def draw(rows, path):
    """Time gained to the right, reward lost upwards; a curve for each kind of setting, a panel for each reward."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tradeoffs"
    from matplotlib import pyplot as plt

    kinds = {"commit": "o-", "screen": "s--", "both": "^:", "steps": "v-", "reuse": "D-", "settle": "p-", "held": "x", "products": "+"}
    rewards = list(dict.fromkeys(row["reward"] for row in rows))
    figure, axes = plt.subplots(1, len(rewards), figsize=(5.2 * len(rewards), 4.2), squeeze=False)
    for axis, reward in zip(axes[0], rewards):
        for kind, style in kinds.items():
            chosen = [row for row in rows if row["reward"] == reward and kind_of(row["setting"]) == kind]
            lost = [100 * row["lost"] for row in chosen]
            errors = [100 * row["lost_error"] for row in chosen]
            axis.errorbar([row["gained"] for row in chosen], lost, errors, fmt=style, label=kind, capsize=2, linewidth=1)
            for row, height in zip(chosen, lost):
                name = re.sub("(commit|screen|steps|reuse|settle|held) ", "", row["setting"]).replace(", ", " + ")
                axis.annotate(name, (row["gained"], height), (5, 4), textcoords="offset points", fontsize=7)
        axis.axhline(0, color="grey", linewidth=0.6)
        axis.axhline(2, color="grey", linewidth=0.8, linestyle=":")
        axis.axvline(2, color="grey", linewidth=0.8, linestyle=":")
        axis.set_title(reward, fontsize=9)
        axis.set_xlabel("time gained, × the exact search")
        axis.set_ylabel("share of the reward gain lost, %")
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def kind_of(setting):
    if "," in setting:
        return "both"
    if setting == "exact":
        return None
    return next((kind for kind in ("commit", "screen", "steps", "reuse", "settle", "held") if setting.startswith(kind)), "products")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="target/release/treasure")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--width", type=int, default=2)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="two prompts, one seed, 16 tokens")
    parser.add_argument("--cpu", action="store_true", help="compare CPU time; only fair with --threads 1")
    parser.add_argument("--only", default="", help="settings whose name matches this regular expression, beside the exact search")
    parser.add_argument("--reward", action="append", help="instead of both; may be repeated")
    parser.add_argument("--prompts", help="a file of prompts, JSON Lines, instead of eight")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--svg", help="also draw the curves")
    args = parser.parse_args()
    rows = map(json.loads, Path(args.prompts).read_text().splitlines()) if args.prompts else ()
    args.prompts = [row.get("prompt", row.get("context_string")).strip() for row in rows] or PROMPTS
    if args.quick:
        args.prompts, args.seeds, args.length = args.prompts[:2], 1, 16
    rows = []
    if not args.json:
        print("| reward | setting | mean reward | of the gain lost | time gained | model calls | reward calls |")
        print("|---|---|---|---|---|---|---|")
    for reward in args.reward or REWARDS:
        for row in measure(args, reward, REWARDS.get(reward)):
            rows.append(row)
            if args.json:
                print(json.dumps(row), flush=True)
                continue
            print(
                f"| {reward} | {row['setting']} | {row['mean']:.3f} | {row['lost']:.1%} ± {row['lost_error']:.1%} "
                f"| ×{row['gained']:.2f} | {row['nfe']} | {row['reward_calls']} |",
                flush=True,
            )
    if args.svg:
        draw(rows, args.svg)


if __name__ == "__main__":
    main()
