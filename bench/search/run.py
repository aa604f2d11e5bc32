"""Race whole searches: our binary against plain.py, same weights, same rewards, same seed, one interleaved run.

plain.py runs the paper's method. Ours runs it too (`--ours paper`: in f32 both write the same texts but for near-ties,
and the race ends with status 1 if most of a case's differ), or the program's own defaults (`--ours defaults`: another search, so texts differ and a judge that
neither side saw says which are better).

Case `pocket`: whole searches with the pocket models. Case `owt`: three steps each at 123, 64 and 8 masks from stored
states, with a random DiT of mdlm-owt's size and a random RoBERTa-base. Prints per case the ratio (their seconds over
ours, medians summed over the prompts), the share of our time in denoiser, reward and search, our GFLOP/s against the
machine's peak, and for pocket cases the held-out means of both sides' texts.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from keys import sample_path

HERE = Path(__file__).resolve().parent
POCKET = HERE.parent.parent / "assets" / "pocket"
WIDTHS = [(5, 2), (20, 16)]
MASKS = [123, 64, 8]
PROMPTS = [
    "Once upon a time", "The lake", "One day, a little girl", "The old dog", "Tom and his mother", "In the morning",
    "The book", "There was a big house",
]
#: Who judges the texts of a reward without having been seen by the search; all of these are better when higher.
HELD_OUT = {"classifier": "hf:pocket/judge-sentiment-heldout#negative", "perplexity": "nelbo:pocket"}


class Side:
    """A process that answers one line of JSON with another."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[0]}: ended early")
        return json.loads(line)

    def ask(self, request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self.read()

    def peak_memory(self):
        """Bytes, where Linux tells."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        except OSError:
            return None
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def cpu_ticks():
    try:
        return [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return [0] * 8


def own_ticks(sides):
    """CPU ticks of both sides."""
    total = 0
    for side in sides:
        fields = Path(f"/proc/{side.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total


def specials(directory):
    """The token that ends a text, and the other special tokens."""
    directory = Path(directory)
    added = {t["content"]: t["id"] for t in json.loads((directory / "tokenizer.json").read_text())["added_tokens"]}
    eos = json.loads((directory / "config.json").read_text()).get("eos_token_id", added.get("<|endoftext|>"))
    return eos, [i for i in added.values() if i != eos]


def cases(args, folder):
    """Name, model, reward, widths, options of both sides, requests."""
    model = str(POCKET / "denoiser")
    rewards = {"classifier": f"hf:{POCKET / 'judge-sentiment'}#negative", "perplexity": f"ppl:{POCKET / 'scorer'}"}
    length = args.length or (12 if args.quick else 48)
    for kind, reward in rewards.items():
        for beam, width in WIDTHS:
            requests = [dict(prompt=prompt, seed=args.seed) for prompt in PROMPTS[: args.prompts]]
            name = f"pocket {kind} b={beam} m={width}"
            yield name, model, reward, (beam, width), (length, min(24, length)), requests
    for beam, width in WIDTHS:
        for masks in MASKS:
            name = f"owt classifier b={beam} m={width} masks={masks}"
            if args.only not in name:
                continue
            import random_models

            dit, roberta = random_models.write(folder, layers=2 if args.quick else 12)
            # One mask more: the first step, which is not timed, makes the parents.
            requests = [dict(prompt="once upon a time", seed=args.seed, skip=1, steps=3, masks=masks + 1)]
            yield name, str(dit), f"hf:{roberta}#negative", (beam, width), (124, 124), requests


def stored_state(start, given, masks, seed):
    """The start state with all but so many masks filled, by tokens and at places drawn once."""
    draw = random.Random(f"{seed} {masks}")
    slots = list(start)
    holes = [i for i, slot in enumerate(slots) if slot is None]
    for i in draw.sample(holes, len(holes) - masks):
        slots[i] = draw.randrange(1000, 30000)
    return slots


def difference(ours, theirs):
    """Why the two results are not the same, or None."""
    if ours["text"] == theirs["text"]:
        return None
    pairs = enumerate(zip(ours["text"], theirs["text"]))
    at = next((i for i, (a, b) in pairs if a != b), min(len(ours["text"]), len(theirs["text"])))
    return f"from character {at}: rewards {ours['reward']:.6f} (ours) and {theirs['reward']:.6f}"


def held_out(args, kind, texts):
    """The mean score of texts under a judge that no search saw."""
    command = [args.binary, "score", "--json", "--quiet", "--reward", HELD_OUT[kind], "--", *texts]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return statistics.mean(json.loads(row)["reward"] for row in rows)


def race(case, args, environment, theirs):
    name, model, reward, (beam, width), (length, min_length), requests = case
    command = [args.binary, "bench", "--searches", "-", "--quiet", "--threads", str(args.threads), "--model", model]
    command += ["--reward", reward, "--beam-width", str(beam), "--tree-width", str(width)]
    command += ["--length", str(length), "--min-length", str(min_length), "--precision", args.precision]
    if args.ours == "paper":
        command += ["--preset", "paper"]
    ours = Side(command, environment)
    peak = ours.read()["gflops"]
    eos, never = specials(model)
    dtype = {"f32": "float32", "bf16": "bfloat16"}[args.against]
    theirs.ask(dict(do="load", dtype=dtype, model=model, reward=reward, threads=args.threads, eos=eos, never=never))
    runs = [run(request, beam, width, min_length, args, ours, theirs) for request in requests]
    memory = ours.peak_memory()
    ours.close()
    # Medians over the rounds of a prompt, summed over prompts.
    total = lambda pick: sum(statistics.median(pick(row) for row in rows) for rows in runs)
    seconds, torch_seconds = total(lambda row: row[0]["seconds"]), total(lambda row: row[1]["seconds"])
    wall = total(lambda row: row[0]["wall"])
    parts = {part: total(lambda row: row[0][part + "_seconds"]) / wall for part in ("denoiser", "reward")}
    parts["search"] = max(0.0, 1.0 - sum(parts.values()))
    torch_wall = total(lambda row: row[1]["wall"])
    last = [rows[-1] for rows in runs]
    done = sum(mine["denoiser_operations"] + mine["reward_operations"] for mine, _, _ in last)
    differs = {row[0]["prompt"]: difference(*row[:2]) for row in last}
    kind = name.split()[1]
    judged = name.startswith("pocket")
    return dict(
        case=name, ratio=round(torch_seconds / seconds, 2), share={k: round(v, 3) for k, v in parts.items()},
        gflops=round(done / seconds / 1e9, 1), peak=round(peak, 1), ours_s=round(seconds, 4),
        torch_s=round(torch_seconds, 4),
        torch_share={k: round(total(lambda row: row[1]["parts"][k]) / torch_wall, 3) for k in ("denoiser", "reward")},
        cost={key: sum(row[0]["cost"][key] for row in last) for key in last[0][0]["cost"]},
        prompts=len(runs), differs={prompt: why for prompt, why in differs.items() if why},
        held_out=[round(held_out(args, kind, [row[side]["text"] for row in last]), 4) for side in (0, 1)] if judged else None,
        peak_mb=memory and round(memory / 1e6), foreign=round(total(lambda row: row[2]) / len(runs), 2),
    )


def run(request, beam, width, min_length, args, ours, theirs):
    """The timed rounds of one request: ours, theirs, and the share of the machine that others used."""
    masks = request.pop("masks", None)
    first = ours.ask(dict(request, skip=0, steps=1))
    slots = first["slots"]
    if masks is not None:
        slots = stored_state(slots, first["given"], masks, args.seed)
    request = dict(request, slots=slots)
    more = dict(do="run", beam=beam, width=width, given=first["given"], min_length=min_length)
    more["sample_path"] = sample_path(request["prompt"])
    rows = []
    for number in range(args.rounds + 1):
        before, own, pair = cpu_ticks(), 0, []
        for side, asked in ((ours, request), (theirs, dict(request, **more))):
            ticks = own_ticks([side])
            pair.append(side.ask(asked))
            ticks = own_ticks([side]) - ticks
            own += ticks
            pair[-1]["prompt"] = request["prompt"]
            pair[-1]["wall"] = pair[-1]["seconds"]
            if args.cpu:
                pair[-1]["seconds"] = ticks / os.sysconf("SC_CLK_TCK")
        spent = [b - a for a, b in zip(before, cpu_ticks())]
        busy = sum(spent[:3]) - own
        if number > 0 or args.rounds == 0:  # the first round warms both up
            rows.append((*pair, max(0, busy) / max(1, sum(spent))))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="target/release/treasure")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=None, help="timed rounds (default 3, quick 1)")
    parser.add_argument("--ours", choices=["paper", "defaults"], default="paper", help="the method of our side")
    parser.add_argument("--prompts", type=int, default=None, help="prompts of a pocket search, at most 8 (default 4, quick 2)")
    parser.add_argument("--length", type=int, default=None, help="tokens of a pocket search (default 48, quick 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", action="store_true", help="compare CPU time, untimed steps included; only fair with --threads 1")
    parser.add_argument("--precision", choices=["f32", "bf16", "int8", "auto"], default="f32", help="of our products")
    parser.add_argument("--against", choices=["f32", "bf16"], default="f32", help="what PyTorch computes in")
    parser.add_argument("--only", default="", help="run cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="short searches, two layers in the large models")
    parser.add_argument("--json", action="store_true", help="one JSON object per case on standard output")
    parser.add_argument("--models", help="keep the random models in this directory")
    args = parser.parse_args()
    if args.rounds is None:
        args.rounds = 1 if args.quick else 3
    if args.prompts is None:
        args.prompts = 2 if args.quick else 4
    exact = args.ours == "paper" and (args.precision, args.against) == ("f32", "f32")
    unequal = []
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    theirs = Side([sys.executable, str(HERE / "plain.py")], environment)
    if not args.json:
        print("| case | PyTorch s | ours s | ratio | denoiser, reward, search | GFLOP/s | of peak | MB | others' CPU | held out: ours, PyTorch | same texts |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(args, args.models or folder):
            if args.only not in case[0]:
                continue
            row = race(case, args, environment, theirs)
            if exact and 2 * len(row["differs"]) > row["prompts"]:
                unequal.append(row["case"])
            if args.json:
                print(json.dumps(row), flush=True)
                continue
            share = ", ".join(f"{part:.0%}" for part in row["share"].values())
            judged = ", ".join(f"{mean:.3f}" for mean in row["held_out"]) if row["held_out"] else "–"
            same = f"{row['prompts'] - len(row['differs'])} of {row['prompts']}" if args.ours == "paper" else "other method"
            print(
                f"| {row['case']} | {row['torch_s']:.3f} | {row['ours_s']:.3f} | ×{row['ratio']:.2f} | {share} "
                f"| {row['gflops']:.0f} | {row['gflops'] / row['peak']:.0%} | {row['peak_mb']} | {row['foreign']:.0%} "
                f"| {judged} | {same} |",
                flush=True,
            )
            if args.ours == "paper":
                for prompt, why in row["differs"].items():
                    print(f"{row['case']}: {prompt!r} differs {why}", file=sys.stderr)
    theirs.close()
    if unequal:
        sys.exit(f"in f32 the same method must write the same texts, near-ties aside: {', '.join(unequal)}")


if __name__ == "__main__":
    main()
