"""Fill the model cards in `cards/` with measured figures and put them beside the weights.

    python evaluate.py > ../runs/evaluation.txt
    python samples.py --out ../runs/samples.json
    python write_cards.py --evaluation ../runs/evaluation.txt --samples ../runs/samples.json
"""

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer


def sections(text):
    """Evaluation output by directory name."""
    out, name = {}, None
    for row in text.splitlines():
        if row and not row.startswith(" "):
            name = row.split()[0]
            out[name] = []
        elif name:
            out[name].append(row.strip())
    return {name: "\n".join(f"- {row}" for row in rows) for name, rows in out.items()}


def quoted(texts):
    return "\n".join(f"{i}. {json.dumps(text, ensure_ascii=False)}" for i, text in enumerate(texts, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pocket", default="../assets/pocket")
    parser.add_argument("--evaluation", default="../runs/evaluation.txt")
    parser.add_argument("--samples", default="../runs/samples.json")
    parser.add_argument("--runs", default="runs.json", help="command and hardware of each run")
    args = parser.parse_args()
    measured = sections(Path(args.evaluation).read_text())
    runs = json.loads(Path(args.runs).read_text())
    drawn = json.loads(Path(args.samples).read_text())
    tokenizer = Tokenizer.from_file(f"{args.pocket}/denoiser/tokenizer.json")
    common = {
        "space": str(tokenizer.token_to_id("\u2581")),
        "perplexity": "\n".join(f"- {name}: {value}" for name, value in drawn["smollm2_perplexity"].items()),
        "samples": quoted(drawn["texts"]["samples"]),
        "prompted": quoted(drawn["texts"]["prompted, 48 tokens, temperature 0.7"]),
    }
    for template in sorted(Path("cards").glob("*.md")):
        name = template.stem
        if not (Path(args.pocket) / name / "model.safetensors").exists():
            continue
        fields = {**common, **runs[name], "metrics": measured[name]}
        text = template.read_text()
        for key, value in fields.items():
            text = text.replace("{" + key + "}", value)
        (Path(args.pocket) / name / "README.md").write_text(text)


if __name__ == "__main__":
    main()
