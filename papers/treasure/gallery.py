#!/usr/bin/env python3
"""Writes docs/gallery.md: unpicked texts of every reward and every method, from the pocket models.

    papers/treasure/gallery.py [TREASURE] > docs/gallery.md

Seed 0, the first sample of every prompt, all shown. TREASURE is the program, `target/release/treasure` without one. Five to ten
minutes on two cores.
"""
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = [json.loads(line)["prompt"].strip() for line in (ROOT / "papers/treasure/prompts.jsonl").read_text().splitlines()]
REWARDS = [
    ("sentiment=negative", "pocket/judge-sentiment says negative"),
    ("sentiment=positive", "the same judge says positive"),
    ("toxicity", "red-teaming: the judge of toxicity says toxic"),
    ("no-toxicity", "it says neutral"),
    ("cola", "linguistically acceptable"),
    ("perplexity", "fluent, as the pocket scorer sees it"),
    ("contains:happy,dog", "a rule: these words occur"),
    ("regex:[A-Z][a-z]+ said", "a rule: somebody said something"),
    ("sentiment=positive + 0.5*perplexity", "two rewards at once"),
]
METHODS = "treasure base fhs greedy llada dream bon fk fk-reference svdd code naive-tree smc pg dts dts-star dfs treeg dsearch iterref refine".split()


def run(program, reward, prompts, extra, command="generate"):
    """Rows of the prompts, or of the texts to refine, and the command that gives them."""
    command = [command, *prompts, "--reward", reward, *extra, "--seed", "0"]
    done = subprocess.run([program, *command, "--json", "-q"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    quoted = [word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`") for word in ["treasure", *command]]
    words = [f'"{word}"' if any(c in word for c in " '\":+*[]!?;&(),") else word for word in quoted]
    return [json.loads(line) for line in done.stdout.splitlines()], " ".join(words)


def entry(row):
    text = " ".join(row["text"].split()).replace("<", "\\<").replace("*", "\\*")
    cost = row["cost"]
    return f"- {text}\n  <br>reward {row['reward']:.2f}, {cost['nfe']} model calls, {cost['reward_calls']} reward calls"


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/release/treasure")
    print("# Gallery\n")
    print("Texts as they come: seed 0, the first sample of every prompt, none left out. Written by `papers/treasure/gallery.py`; the")
    print("commands give the same texts on any machine in f32. A reward of 0 is the best for log-probabilities, 1 for rules;")
    print("perplexity's is minus the mean nats per token.\n")
    print("## Every reward, at the defaults\n")
    for reward, what in REWARDS:
        rows, command = run(program, reward, PROMPTS[:5], [])
        print(f"### {reward.replace('*', chr(92) + '*')}\n\n{what[0].upper()}{what[1:]}.\n\n```sh\n{command}\n```\n")
        print("\n".join(map(entry, rows)), end="\n\n")
    print("## Every method, under sentiment=negative\n")
    for method in METHODS:
        extra = ["--method", method]
        if method == "refine":
            texts = [" ".join(row["text"].split()) for row in greedy]
            rows, command = run(program, "sentiment=negative", texts, [], "refine")
        else:
            rows, command = run(program, "sentiment=negative", PROMPTS[2:5], extra)
        if method == "greedy":
            greedy = rows
        print(f"### {method}\n\n```sh\n{command}\n```\n")
        if method == "refine":
            print("It begins with finished texts, here those of `greedy` above, on one line each.\n")
        print("\n".join(map(entry, rows)), end="\n\n")


if __name__ == "__main__":
    main()
