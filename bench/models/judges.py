"""How far bf16 and int8 are from f32 on texts that no model saw in training: labels of every pocket judge on its test sets,
the scorer's likelihoods and the denoiser's likeliest tokens on held-out stories.

    python bench/models/judges.py target/release/examples/agreement --data DIR

DIR holds the training data (`classify/*.tsv.xz`, `text/*`; training/README.md says where they come from). The test sets are
those of training/evaluate.py. Needs the packages of training/requirements.txt that it imports: torch and numpy.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "training"))
import judge_data  # noqa: E402
import stories  # noqa: E402

#: Source, and whether a row of it is in the test set.
TESTS = {
    "sentiment": {
        "tweets": lambda source, _, text: source == "semeval_tweets" and judge_data.digit(text) == "0",
        "SST dev": lambda source, split, _: (source, split) == ("sst", "dev"),
        "GoEmotions test": lambda source, split, _: (source, split) == ("goemotions", "test"),
    },
    "toxicity": {
        "TweetEval offensive val + ParaDetox dev": lambda source, split, _: (source, split) in {("te_offensive", "val"), ("paradetox", "dev")},
    },
    "acceptability": {
        "CoLA dev_in": lambda source, split, _: (source, split) == ("cola", "dev_in"),
        "BLiMP dev": lambda source, split, _: (source, split) == ("blimp", "dev"),
    },
}


def compare(binary, model, lines, folder, title):
    path = Path(folder) / "texts.tsv"
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    print(f"\n{model}, {title}, {len(lines)} texts\n", flush=True)
    subprocess.run([binary, str(ROOT / "assets" / "pocket" / model), str(path)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="target/release/examples/agreement")
    parser.add_argument("--data", required=True)
    parser.add_argument("--most", type=int, default=3000, help="texts of a test set")
    parser.add_argument("--stories", type=int, default=100)
    parser.add_argument("--only", default="", help="models whose name contains this")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for task, tests in TESTS.items():
            rows = list(judge_data.rows(args.data, task))
            for title, wanted in tests.items():
                lines = [f"{label}\t{' '.join(text.split())}" for source, split, label, text in rows if wanted(source, split, text)]
                for model in (f"judge-{task}", f"judge-{task}-heldout"):
                    if args.only in model and (ROOT / "assets" / "pocket" / model).exists():
                        compare(args.binary, model, lines[: args.most], folder, title)
        held = stories.split(stories.read(args.data))[1][: args.stories]
        lines = [" ".join(text.split()) for text, _ in held]
        for model in ("scorer", "denoiser"):
            if args.only in model:
                compare(args.binary, model, lines, folder, "held-out stories")


if __name__ == "__main__":
    main()
