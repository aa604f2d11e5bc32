"""Turn the 15M story model into a masked-diffusion denoiser.

    OMP_NUM_THREADS=1 nice -n 5 python train_denoiser.py --minutes 95 --optimizer muon

Stop it at any time; `--resume` continues from the last checkpoint with its optimizer state and clock.
A finished run is continued from the checkpoint saved before its decay:
    python train_denoiser.py --resume ../runs/denoiser/stable.pt --minutes 300
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

import diffusion
import llada
import optim
import stories
import story_model
import vocabulary

# (length, rows, share of the batches): about 6,000 tokens each.
SHAPES = [(128, 48, 0.68), (256, 24, 0.08), (88, 70, 0.12), (48, 128, 0.12)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--story-model", default="../models/llama2.data")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--vocab", default="../runs/vocab")
    parser.add_argument("--work", default="../runs/denoiser", help="checkpoints and log")
    parser.add_argument("--early", help="also export the averaged weights here at every checkpoint")
    parser.add_argument("--minutes", type=float, default=95, help="length of the schedule, all runs together")
    parser.add_argument("--tokens", type=float, help="length of the schedule in tokens instead: a shared machine does not shorten it")
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16, sums and weights in float32")
    parser.add_argument("--decay-from", type=float, default=0.7)
    parser.add_argument("--optimizer", choices=["muon", "adamw"], default="muon")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--smallest-share", type=float, default=0.1)
    parser.add_argument("--ema", type=float, default=0.995)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--more-stories", action="store_true", help="also train on the second set of stories")
    parser.add_argument("--stories", nargs="*", default=[], help="further JSON Lines files of stories, with --more-stories")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--checkpoint-minutes", type=float, default=4)
    parser.add_argument("--resume", help="checkpoint to continue from")
    parser.add_argument("--start", help="exported directory whose weights to start from instead of the story model's")
    return parser.parse_args()


def held_out_windows(rows, tokenizer, length=128, limit=None):
    """First `length` tokens of the held-out stories that have as many."""
    encoded = (tokenizer.encode(text).ids for text, _ in rows)
    windows = [ids[:length] for ids in encoded if len(ids) >= length]
    return torch.tensor(windows[:limit])


def save_atomically(path, value):
    torch.save(value, f"{path}.part")
    os.replace(f"{path}.part", path)


class Run:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        self.tokenizer = Tokenizer.from_file(f"{args.vocab}/tokenizer.json")
        if args.start:
            self.model = llada.load(args.start).train()
        else:
            kept_ids = np.load(f"{args.vocab}/kept_ids.npy")
            self.model = llada.from_story_model(story_model.load(args.story_model), kept_ids)
        kept, held = stories.split(stories.read(args.data))
        if args.more_stories:
            more = stories.read_more(args.data) + [row for path in args.stories for row in stories.read_file(path)]
            kept += stories.split(more)[0]
        self.held = held_out_windows(held, self.tokenizer, limit=48)
        self.clock, self.step, self.tokens = 0.0, 0, 0
        self.optimizers = optim.build(self.model, args.optimizer, args.lr, dtype=torch.bfloat16 if args.bf16 else torch.float32)
        self.average = {name: value.clone() for name, value in self.model.state_dict().items()}
        if args.resume:
            self.restore(torch.load(args.resume))
        seed = args.seed * 1_000_003 + self.step
        self.windows = stories.Windows(kept, self.tokenizer, seed)
        self.random = np.random.default_rng(seed + 1)
        self.generator = torch.Generator().manual_seed(seed + 2)
        self.hidden = torch.compile(self.model.hidden, dynamic=False) if args.compile else self.model.hidden
        self.stable_saved = self.progress() >= args.decay_from
        Path(args.work).mkdir(parents=True, exist_ok=True)

    def progress(self):
        return self.tokens / self.args.tokens if self.args.tokens else self.clock / 60 / self.args.minutes

    def restore(self, saved):
        self.model.load_state_dict(saved["model"])
        self.average = saved["average"]
        for optimizer, state in zip(self.optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        self.clock, self.step, self.tokens = saved["clock"], saved["step"], saved["tokens"]

    def checkpoint(self, name):
        state = dict(model=self.model.state_dict(), average=self.average, clock=self.clock, step=self.step,
                     tokens=self.tokens, optimizers=[o.state_dict() for o in self.optimizers])
        save_atomically(f"{self.args.work}/{name}.pt", state)

    def log(self, **row):
        row = dict(minutes=round(self.clock / 60, 2), step=self.step, tokens=self.tokens, **row)
        with open(f"{self.args.work}/log.jsonl", "a") as log:
            log.write(json.dumps(row) + "\n")
        print(row, flush=True)

    def train_step(self):
        length, rows, _ = SHAPES[self.random.choice(len(SHAPES), p=[share for *_, share in SHAPES])]
        ids = torch.from_numpy(self.windows.batch(rows, length))
        offset = torch.rand(1, generator=self.generator)
        shares = (torch.arange(rows) / rows + offset) % 1.0
        noisy, hidden = diffusion.mask_windows(ids, shares, self.model.mask_id, self.generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.args.bf16):
            states = self.hidden(noisy)
            loss = diffusion.masked_loss(states, self.model.wte.weight, ids, hidden, self.args.smallest_share)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        rate = self.args.lr * optim.schedule(self.progress(), decay_from=self.args.decay_from)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        self.tokens += rows * length
        keep = min(self.args.ema, (1 + self.step) / (10 + self.step))
        for name, value in self.model.state_dict().items():
            self.average[name].lerp_(value, 1 - keep)
        return loss.item(), norm.item(), rate

    def validate(self, state=None):
        current = {name: value.clone() for name, value in self.model.state_dict().items()}
        if state is not None:
            self.model.load_state_dict(state)
        bound, _ = diffusion.nelbo(self.model, self.held, strata=8)
        self.model.load_state_dict(current)
        return round(bound.mean().item(), 4)

    def export(self, out, state):
        current = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(state)
        llada.save(self.model, out)
        self.model.load_state_dict(current)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            Path(out, name).write_bytes(Path(self.args.vocab, name).read_bytes())

    def run(self):
        last, last_saved, recent = time.monotonic(), self.clock, []
        while self.progress() < 1:
            loss, norm, rate = self.train_step()
            now = time.monotonic()
            self.clock += min(now - last, 60)  # a pause of the process does not count
            last = now
            recent.append((loss, norm))
            if self.step % 20 == 0:
                self.log(loss=round(float(np.mean([l for l, _ in recent])), 4), rate=rate,
                         norm=round(float(np.mean([n for _, n in recent])), 3))
                recent = []
            if not self.stable_saved and self.progress() >= self.args.decay_from:
                self.checkpoint("stable")
                self.stable_saved = True
            if self.clock - last_saved > 60 * self.args.checkpoint_minutes:
                self.checkpoint("last")
                if self.args.early:
                    self.export(self.args.early, self.average)
                self.log(nelbo=self.validate(), nelbo_average=self.validate(self.average))
                last_saved, last = self.clock, time.monotonic()
        self.checkpoint("last")
        plain, average = self.validate(), self.validate(self.average)
        self.log(nelbo=plain, nelbo_average=average)
        best = self.average if average < plain else self.model.state_dict()
        self.export(f"{self.args.work}/export", best)


if __name__ == "__main__":
    Run(arguments()).run()
