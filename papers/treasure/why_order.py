#!/usr/bin/env python3
"""Why the order matters: how much of what a child is judged by is still there at the end?

  papers/treasure/why_order.py [--treasure PROGRAM] [--continuations 2] [--reward sentiment=negative] [-- more options]

A child is valued by the completion of its text, so a value is worth as much as that completion lasts. For each order,
the same searches (15 prompts, no prior, no variety, the final answer, so that nothing but the order differs), their
traces, and along the path that led to the answer: how far the value lay from the final reward, when a quarter, a half
and three quarters of the masks were filled. Prints a Markdown table. Python 3 and the program, nothing else.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ORDERS = ["uniform", "left-to-right", "confidence"]
SHARES = [0.25, 0.5, 0.75]


def searches(trace):
    """The traces of a file, one list of events each."""
    runs = []
    for line in trace.read_text().splitlines():
        event = json.loads(line)
        if event.get("schema"):
            runs.append([])
        else:
            runs[-1].append(event)
    return runs


def path_of(run):
    """Values along the path to the answer, the first reveal first, and the final reward."""
    end = next(event for event in run if event["event"] == "end")
    start = next(event for event in run if event["event"] == "start")["start"]
    nodes = {event["id"]: event for event in run if event["event"] == "node"}

    def state(node):
        tokens = list(start)
        while node["parent"] is not None:
            for position, token in [(node["position"], node["token"]), *node.get("also", [])]:
                if position is not None:
                    tokens[position] = token
            node = nodes[node["parent"]]
        return tokens

    leaf = next(node for node in nodes.values() if not node["masks_left"] and state(node) == end["tokens"])
    values = []
    while leaf["parent"] is not None:
        values.append(leaf["value"])
        leaf = nodes[leaf["parent"]]
    return values[::-1], end["reward"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--treasure", default="treasure")
    parser.add_argument("--continuations", type=int, default=2)
    parser.add_argument("--reward", default="sentiment=negative")
    options, more = parser.parse_known_args()
    more = [word for word in more if word != "--"]
    prompts = [json.loads(line) for line in (HERE / "prompts.jsonl").read_text().splitlines() if line.strip()]
    prompts = [row["prompt"] if isinstance(row, dict) else row for row in prompts]
    print(f"`{options.reward}`, {len(prompts)} prompts × {options.continuations}, |value − final reward| on the path to the answer\n")
    print("| order | " + " | ".join(f"{share:.0%} filled" for share in SHARES) + " | final reward | n |")
    print("|---" * (len(SHARES) + 3) + "|")
    for order in ORDERS:
        with tempfile.TemporaryDirectory() as folder:
            asked, trace = pathlib.Path(folder, "prompts.jsonl"), pathlib.Path(folder, "trace.jsonl")
            asked.write_text("".join(json.dumps({"prompt": prompt.lstrip("\n")}) + "\n" for prompt in prompts))
            subprocess.run(
                [options.treasure, "generate", "--prompts", str(asked), "--samples", str(options.continuations), "--quiet",
                 "--out", f"{folder}/rows.jsonl", "--reward", options.reward, "--preset", "paper", "--order", order,
                 "--trace", str(trace), *more],
                check=True, stdout=subprocess.DEVNULL,
            )
            found = [path_of(run) for run in searches(trace)]
        gaps = [statistics.fmean(abs(values[int(share * len(values))] - reward) for values, reward in found) for share in SHARES]
        rewards = statistics.fmean(reward for _, reward in found)
        print(f"| {order} | " + " | ".join(f"{gap:.2f}" for gap in gaps) + f" | {rewards:.2f} | {len(found)} |")


if __name__ == "__main__":
    sys.exit(main())
