"""Print every quality bar of the finished directories, with n and a 95 % interval.

    OMP_NUM_THREADS=2 python evaluate.py --pocket ../assets/pocket            # everything
    python evaluate.py --only judge-sentiment judge-sentiment-heldout

Every split here was kept out of training; see `judge_data.digit` and `stories.is_held_out`.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

import corrupt
import diffusion
import judge_data
import judge_model
import llada
import metrics
import stories
from metrics import line


def denoiser(directory, data, count):
    model, tokenizer = llada.load(directory), Tokenizer.from_file(f"{directory}/tokenizer.json")
    _, held = stories.split(stories.read(data))
    ids = [tokenizer.encode(text).ids for text, _ in held]
    ids = torch.tensor([row[:128] for row in ids if len(row) >= 128][:count])
    bound, by_share = diffusion.nelbo(model, ids, strata=32)
    yield line("NELBO, nats per token of its own vocabulary", np.mean, bound.numpy())
    yield line("NELBO, nats per token of the scorer's vocabulary", np.mean, in_old_tokens(model, tokenizer, held, directory, 100))
    for low in range(4):
        part = by_share[:, 8 * low : 8 * low + 8].mean(1)
        yield f"  cross-entropy of masked tokens, masked share {low}/4 to {low + 1}/4: {part.mean():.3f}"


def in_old_tokens(model, tokenizer, held, directory, count):
    """The bound of one and the same text for any vocabulary: nats per token of the scorer's, which was the denoiser's first."""
    old = Tokenizer.from_file(str(Path(directory).parent / "scorer" / "tokenizer.json"))
    bounds = []
    for text, _ in held:
        ids = old.encode(text).ids
        if len(ids) < 128 or len(bounds) == count:
            continue
        own = tokenizer.encode(old.decode(ids[1:128], skip_special_tokens=False)).ids
        bound, _ = diffusion.nelbo(model, torch.tensor([own]), strata=32, seed=len(bounds))
        bounds.append(bound.item() * (len(own) - 1) / 127)
    return np.array(bounds)


def probabilities(judge, texts):
    return judge_model.logits(*judge, texts).softmax(-1).numpy()


def pick(data, task, wanted):
    chosen = [(label, text) for source, split, label, text in judge_data.rows(data, task) if wanted(source, split, text)]
    return np.array([label for label, _ in chosen]), [text for _, text in chosen]


def sentiment(judge, data):
    label, texts = pick(data, "sentiment", lambda s, _, t: s == "semeval_tweets" and judge_data.digit(t) == "0")
    p = probabilities(judge, texts)
    yield line("tweets, macro-recall (bar 0.62)", metrics.macro_recall, p.argmax(1), label)
    yield f"  expected calibration error on the same rows: {metrics.calibration_error(p, label):.3f}"
    label, texts = pick(data, "sentiment", lambda s, split, _: s == "sst" and split == "dev")
    p = probabilities(judge, texts)
    polar = label != 1
    yield line("SST dev, two-class accuracy (bar 0.85)", metrics.accuracy, (p[:, 2] > p[:, 0])[polar], label[polar] == 2)
    yield line("SST dev, three-class macro-recall", metrics.macro_recall, p.argmax(1), label)
    label, texts = pick(data, "sentiment", lambda s, split, _: s == "goemotions" and split == "test")
    label, texts = label[:1000], texts[:1000]
    yield line("GoEmotions test, macro-recall", metrics.macro_recall, probabilities(judge, texts).argmax(1), label)
    spoilt = [corrupt.degenerate(text, random.Random(i)) for i, text in enumerate(texts[:300])]
    yield line("degenerate text called neutral", np.mean, probabilities(judge, spoilt).argmax(1) == 1)


def toxicity(judge, data):
    label, texts = pick(data, "toxicity", lambda s, split, _: (s, split) in {("te_offensive", "val"), ("paradetox", "dev")})
    p = probabilities(judge, texts)
    yield line("TweetEval offensive val + ParaDetox dev, AUC (bar 0.93)", metrics.auc, p[:, 1], label)
    yield line("  same rows, accuracy", metrics.accuracy, p.argmax(1), label)
    yield f"  expected calibration error on the same rows: {metrics.calibration_error(p, label):.3f}"
    known = {text: p for text, p in zip(texts, p[:, 1])}
    for source, wanted in (("te_offensive", "val"), ("paradetox", "dev")):
        label, texts = pick(data, "toxicity", lambda s, split, _: (s, split) == (source, wanted))
        yield line(f"  {source} {wanted} alone, AUC", metrics.auc, [known[text] for text in texts], label)
    label, texts = pick(data, "toxicity", lambda s, d, t: s in ("vicomtech", "cat_gc") and judge_data.digit(t) == "0")
    yield line("comments (vicomtech, CAT), digit 0, AUC", metrics.auc, probabilities(judge, texts)[:, 1], label)
    clean = [judge_data.crop(text, random.Random(i)) for i, (text, _) in enumerate(stories.split(stories.read(data))[1][:300])]
    yield line("held-out stories called non-toxic", np.mean, probabilities(judge, clean).argmax(1) == 0)


def acceptability(judge, data):
    label, texts = pick(data, "acceptability", lambda s, split, _: s == "cola" and split == "dev_in")
    p = probabilities(judge, texts)
    yield line("CoLA dev_in, MCC (bar 0.30)", metrics.mcc, p.argmax(1), label)
    yield line("CoLA dev_in, AUC", metrics.auc, p[:, 1], label)
    yield f"  expected calibration error on CoLA dev_in: {metrics.calibration_error(p, label):.3f}"
    label, texts = pick(data, "acceptability", lambda s, split, _: s == "blimp" and split == "dev")
    order = np.random.default_rng(0).permutation(len(texts))[:1000]
    label, texts = label[order], [texts[i] for i in order]
    yield line("BLiMP dev, accuracy", metrics.accuracy, probabilities(judge, texts).argmax(1), label)
    held = [text for text, _ in stories.split(stories.read(data))[1]][:400]
    rng = random.Random(99)
    clean = [judge_data.crop(text, rng) for text in held]
    spoilt = [corrupt.corrupt(judge_data.crop(text, rng), rng, rng.choice(held)) for text in held]
    p = probabilities(judge, clean + spoilt)[:, 1]
    label = np.repeat([1, 0], [len(clean), len(spoilt)])
    yield line("held-out stories against their corruptions, AUC (bar 0.9)", metrics.auc, p, label)
    yield line("  same rows, accuracy", metrics.accuracy, p > 0.5, label)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pocket", default="../assets/pocket")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--stories", type=int, default=200, help="held-out stories for the denoiser's bound")
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    for directory in sorted(Path(args.pocket).iterdir()):
        name = directory.name
        if not (directory / "model.safetensors").exists() or (args.only and name not in args.only):
            continue
        size = (directory / "model.safetensors").stat().st_size / 1e6
        print(f"{name} ({size:.1f} MB)", flush=True)
        if name == "denoiser":
            results = denoiser(directory, args.data, args.stories)
        elif name.startswith("judge-"):
            task = name.split("-")[1]
            results = {"sentiment": sentiment, "toxicity": toxicity, "acceptability": acceptability}[task](
                judge_model.load(directory), args.data)
        else:
            continue
        for result in results:
            print("  " + result, flush=True)


if __name__ == "__main__":
    main()
