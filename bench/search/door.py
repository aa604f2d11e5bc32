"""Race `treasure.from_torch` against plain.py on the same torch module: whole searches, alternating, one process.

    RAYON_NUM_THREADS=1 python door.py --rounds 5 --threads 1

The same search on both sides: paper's options, b=5, m=2, 48 tokens, the pocket denoiser as a torch module. First with the same torch
reward on both sides, then with ours built in. CPU time of the process counts with one thread, so that a machine that is not quiet can be
used; ratios are their seconds over ours, medians of rounds, the first of which warms up.
"""

import argparse
import statistics
import time
from pathlib import Path

import plain
import torch
from tokenizers import Tokenizer

import treasure

POCKET = Path(__file__).resolve().parents[2] / "assets" / "pocket"
PROMPT, LENGTH = "Once upon a time", 48


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    for kind, spec, ours in (
        ("classifier", f"hf:{POCKET / 'judge-sentiment'}#negative", "sentiment=negative"),
        ("perplexity", f"ppl:{POCKET / 'scorer'}", "perplexity"),
    ):
        search = plain.Search(dict(model=str(POCKET / "denoiser"), reward=spec, threads=args.threads, eos=1, never=[0, 2]))
        ids = Tokenizer.from_file(str(POCKET / "denoiser" / "tokenizer.json")).encode(PROMPT, add_special_tokens=False).ids
        start = [1, *ids]
        request = dict(seed=0, prompt=PROMPT, given=len(start), slots=start + [None] * LENGTH, beam=5, width=2, min_length=24)
        mine = treasure.from_torch(search.denoiser, POCKET / "denoiser", mask_id=search.denoiser.mask_id, bos_id=1, eos_id=1, max_len=256)
        score = torch.inference_mode()(search.reward.score)

        def judge(texts):
            return score(texts)

        options = dict(preset="paper", beam_width=5, tree_width=2, length=LENGTH, min_length=24, tree=False)
        seconds = {"plain": [], "torch reward": [], "built-in reward": []}
        for number in range(args.rounds + 1):
            runs = {
                "plain": lambda: search.run(dict(request, seed=number)),
                "torch reward": lambda: mine.generate(PROMPT, reward=judge, seed=number, **options),
                "built-in reward": lambda: mine.generate(PROMPT, reward=ours, seed=number, **options),
            }
            for name, run in runs.items():
                begin = clock()
                run()
                seconds[name].append(clock() - begin)
        medians = {name: statistics.median(taken[1:]) for name, taken in seconds.items()}
        for name in ("torch reward", "built-in reward"):
            ratio = medians["plain"] / medians[name]
            print(f"{kind}, {name}: plain {medians['plain']:.2f} s, from_torch {medians[name]:.2f} s, ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
