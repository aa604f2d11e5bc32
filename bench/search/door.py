"""Race `treasure.from_torch` against plain.py on the same torch module: whole searches, alternating, one process.

    RAYON_NUM_THREADS=1 python door.py --rounds 5 --threads 1

The same search on both sides: paper's options, b=5, m=2, 48 tokens, the pocket denoiser as a torch module, the same keys. First with
the same torch reward on both sides, then with ours built in. Texts are compared in every round; where they are not the same, the step
at which the two searches part is said, and by how little: sums run in another order, so near-ties may fall the other way.

CPU time of the process counts with one thread, so that a machine that is not quiet can be used; ratios are their seconds over ours,
medians of rounds, the first of which warms up. Ends with 1 where a ratio is below its bar, or texts part at what is no near-tie.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import plain
import torch
from keys import sample_path
from tokenizers import Tokenizer

import treasure

POCKET = Path(__file__).resolve().parents[2] / "assets" / "pocket"
PROMPT = "Once upon a time"
WIDTHS = dict(beam_width=5, tree_width=2)
#: Ours is at least so many times as fast.
BARS = {"torch reward": 1.0, "built-in reward": 1.3}
#: Rewards nearer than this are a tie: what another order of sums may make of them.
TIE = 1e-4


class Watched(plain.Search):
    """Remembers all children of every step, the best first."""

    def step(self, states, given, prompt, min_length, beam, width, sample):
        children = super().step(states, given, prompt, min_length, beam, beam * width, sample)
        self.steps.append(children)
        return children[:width]


def parting(watched, request, frames):
    """The first step whose best state differs, and by how much plain prefers its own there; none if there is none."""
    watched.steps = []
    watched.run(request)
    for number, (children, frame) in enumerate(zip(watched.steps, frames), 1):
        if frame.sample is not None or frame.ids == children[0][1]:
            continue
        best = -children[0][0][0]
        same = next((-key[0] for key, child, _ in children if child == frame.ids), None)
        return number, None if same is None else best - same
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--length", type=int, default=48)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    failed = False
    for kind, spec, built_in in (
        ("classifier", f"hf:{POCKET / 'judge-sentiment'}#negative", "sentiment=negative"),
        ("perplexity", f"ppl:{POCKET / 'scorer'}", "perplexity"),
    ):
        options = dict(model=str(POCKET / "denoiser"), reward=spec, threads=args.threads, eos=1, never=[0, 2])
        search = plain.Search(options)
        watched = Watched(options)
        start = [1, *Tokenizer.from_file(str(POCKET / "denoiser" / "tokenizer.json")).encode(PROMPT, add_special_tokens=False).ids]
        least = min(24, args.length)
        request = dict(
            prompt=PROMPT, given=len(start), slots=start + [None] * args.length, beam=WIDTHS["beam_width"],
            width=WIDTHS["tree_width"], min_length=least, sample_path=sample_path(PROMPT),
        )
        mine = treasure.from_torch(search.denoiser, POCKET / "denoiser", mask_id=search.denoiser.mask_id, bos_id=1, eos_id=1, max_len=256)
        score = torch.inference_mode()(search.reward.score)

        def judge(texts):
            return score(texts)

        # What plain.py does, said in full, whatever our defaults are.
        ours = dict(
            preset="paper", method="treasure", order="uniform", prior=0.0, variety=0.0, min_p=0.0, select="top", value="resubstitute",
            answer="final", length=args.length, min_length=least, **WIDTHS,
        )
        rewards = {"torch reward": judge, "built-in reward": built_in}
        seconds = {name: [] for name in ("plain", *rewards)}
        texts = {name: [] for name in seconds}
        for seed in range(args.rounds + 1):
            runs = {"plain": lambda: search.run(dict(request, seed=seed))["text"]}
            for name, reward in rewards.items():
                runs[name] = lambda reward=reward: mine.generate(PROMPT, reward=reward, seed=seed, tree=False, **ours).text
            for name, run in runs.items():
                begin = clock()
                texts[name].append(run())
                seconds[name].append(clock() - begin)
        medians = {name: statistics.median(taken[1:] or taken) for name, taken in seconds.items()}
        for name, reward in rewards.items():
            ratio = medians["plain"] / medians[name]
            parted = [seed for seed, (a, b) in enumerate(zip(texts["plain"], texts[name])) if a != b]
            said = f"texts the same in {args.rounds + 1 - len(parted)} of {args.rounds + 1} rounds"
            for seed in parted:
                where = parting(watched, dict(request, seed=seed), mine.stream(PROMPT, reward=reward, seed=seed, **ours))
                if where is None:
                    said += f"; seed {seed}: the same states to the end, another text"
                    failed = True
                else:
                    step, gap = where
                    said += f"; seed {seed} parts at step {step}, " + ("at a state plain has not" if gap is None else f"by {gap:.1e}")
                    failed |= gap is None or gap > TIE
            print(f"{kind}, {name}: plain {medians['plain']:.2f} s, from_torch {medians[name]:.2f} s, ratio {ratio:.2f} "
                  f"(bar {BARS[name]}); {said}", flush=True)
            failed |= ratio < BARS[name]
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
