"""Fine-tune SmolLM2-135M as a teacher of acceptability, and write sentences with its probabilities for `train_judge.py`.

    OMP_NUM_THREADS=1 python teacher.py --bf16 --steps 1600 --taught 60000

The teacher is never shipped: it is twenty times as large as a judge. Its causal network reads a sentence and answers at the
last token. What it labels are sentences of CoLA and BLiMP that it was trained on, and sentences of the plain corpora, whole
and with a small mistake. `taught.pt` holds (text, probabilities) pairs.
"""

import argparse
import random
import re
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import corrupt
import judge_data
import judge_model
import metrics


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", default="../models/smollm2")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--work", default="../runs/teacher-acceptability")
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--batch-tokens", type=int, default=768)
    parser.add_argument("--lr", type=float, default=6e-5)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--taught", type=int, default=60000)
    return parser.parse_args()


class Teacher(torch.nn.Module):
    """A causal network with a head on its last token."""

    def __init__(self, directory):
        super().__init__()
        from transformers import AutoModelForCausalLM, AutoTokenizer

        file = next(Path(directory).glob("*.gguf")).name
        self.tokenizer = AutoTokenizer.from_pretrained(directory, gguf_file=file)
        self.body = AutoModelForCausalLM.from_pretrained(directory, gguf_file=file, dtype=torch.float32).model
        self.head = torch.nn.Linear(self.body.config.hidden_size, 2)
        torch.nn.init.normal_(self.head.weight, std=0.02)

    def encode(self, texts, limit=96):
        rows = self.tokenizer(list(texts)).input_ids
        end = self.tokenizer.eos_token_id
        return [row[:limit] + [end] for row in rows]

    def forward(self, ids, mask):
        hidden = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        last = mask.sum(1) - 1
        return self.head(hidden[torch.arange(len(ids)), last].float())

    @torch.no_grad()
    def probabilities(self, texts, bf16):
        self.eval()
        encoded = self.encode(texts)
        out = torch.zeros(len(encoded), 2)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            for group in judge_model.batches(encoded, 4096):
                out[group] = self(*judge_model.pad([encoded[i] for i in group])).float().softmax(-1)
        return out


def watch(model, rows, bf16):
    label = np.array([row[1] for row in rows])
    positive = model.probabilities([row[2] for row in rows], bf16)[:, 1].numpy()
    return f"MCC {metrics.mcc(positive > 0.5, label):.4f} AUC {metrics.auc(positive, label == 1):.4f} n = {len(rows)}"


def sentences(data_dir, count, rng):
    """Sentences of the plain corpora, half of them with a small mistake, and the labelled ones."""
    texts = judge_data.plain_texts(data_dir, ["simplewiki", "books", "reviews", "stories", "news"], 12000, rng, "123456789ab")
    plain = [s for text in texts for s in re.split(r"(?<=[.!?])\s+", text)[:4] if 4 <= len(s.split()) <= 24]
    rng.shuffle(plain)
    plain = plain[:count]
    spoilt = [corrupt.slip(s, rng) for s in plain[: count // 2]]
    labelled = [text for _, _, text in judge_data.training_rows(data_dir, "acceptability", False)]
    return plain[count // 2 :] + spoilt + rng.sample(labelled, min(len(labelled), count // 2))


def main():
    args = arguments()
    out = Path(args.work)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    model = Teacher(args.smollm2)
    stream = judge_data.Stream(args.data, "acceptability", False, args.seed)
    stream.extras = (0.05, 0.06, 0.0)
    dev = [row for row in [(s, l, t) for s, split, l, t in judge_data.rows(args.data, "acceptability") if split == "dev_in"]]
    decayed = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    groups = [dict(params=decayed, weight_decay=0.05), dict(params=rest, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98), fused=True)
    queue, recent, began = [], [], time.process_time()
    for step in range(args.steps):
        if not queue:
            drawn = [stream.draw() for _ in range(1024)]
            encoded = model.encode([text for text, _ in drawn])
            batches = list(judge_model.batches(encoded, args.batch_tokens))
            stream.rng.shuffle(batches)
            queue = [(*judge_model.pad([encoded[i] for i in g]), torch.tensor([drawn[i][1] for i in g])) for g in batches]
        ids, mask, label = queue.pop()
        model.train()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
            logits = model(ids, mask)
        loss = F.cross_entropy(logits, label)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        share = step / args.steps
        for group in optimizer.param_groups:
            group["lr"] = args.lr * min(share / 0.06 + 0.01, 1.0) * max(1 - share, 0.01)
        optimizer.step()
        optimizer.zero_grad()
        recent.append(loss.item())
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {np.mean(recent):.4f} minutes {(time.process_time() - began) / 60:.1f}", flush=True)
            recent = []
        if (step + 1) % 400 == 0:
            print(watch(model, dev, args.bf16), flush=True)
    torch.save(model.state_dict(), out / "model.pt")
    print("CoLA dev_in", watch(model, dev, args.bf16), flush=True)
    texts = sentences(args.data, args.taught, random.Random(args.seed))
    torch.save(list(zip(texts, model.probabilities(texts, args.bf16))), out / "taught.pt")


if __name__ == "__main__":
    main()
