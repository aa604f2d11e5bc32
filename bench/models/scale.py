"""What more cores would give: our forward passes at 1 and 2 threads, a model of the cost, and its forecast.

T(n) = serial + parallel / n, fitted to one and two threads, and bounded below by what memory can deliver: every pass
reads the weights once per 1,024 rows. Needs a quiet machine with two cores or more; no PyTorch.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import race

CASES = ["dit 1 128 plain", "dit 8 128 plain", "roberta 10 150 plain", "roberta 40 150 plain"]
#: Multiply-adds of weights a token, of twelve layers.
WEIGHTS = race.LAYERS * race.D * (4 * race.D + 2 * race.INNER)
BYTES = {"f32": 4, "bf16": 2, "int8": 1}


def medians(binary, folder, precision, threads, rounds):
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads))
    ours = subprocess.Popen([binary, folder, "best", precision], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, env=environment)
    assert ours.stdout.readline().startswith("ready"), "our side did not start"

    def ask(line):
        print(line, file=ours.stdin, flush=True)
        return json.loads(ours.stdout.readline())["ms"]

    found = {case: statistics.median([ask(case) for _ in range(rounds + 1)][1:]) for case in CASES}
    ours.stdin.close()
    ours.wait()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="target/release/examples/race")
    parser.add_argument("--precision", choices=list(BYTES), default="f32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gbytes", type=float, default=200.0, help="memory bandwidth of the large machine, GB/s")
    args = parser.parse_args()
    race.torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in (("dit", race.DiT), ("gpt2", race.GPT2), ("roberta", race.Roberta)):
            keep = race.Writer()
            kind(keep)
            keep.save(os.path.join(folder, name + ".bin"))
        one, two = (medians(args.binary, folder, args.precision, n, args.rounds) for n in (1, 2))
    print(f"{race.cpu_name()}, {args.precision}, medians of {args.rounds}", file=sys.stderr)
    print("| case | 1 thread ms | 2 threads ms | gain | serial ms | 16 cores ms | 64 cores ms | limited by |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        rows = int(case.split()[1]) * int(case.split()[2])
        serial = max(0.0, 2 * two[case] - one[case])
        parallel = one[case] - serial
        memory = WEIGHTS * BYTES[args.precision] * -(-rows // 1024) / args.gbytes / 1e6
        at = lambda n: max(serial + parallel / n, memory)
        limit = "memory" if memory > serial + parallel / 64 else "the serial part" if serial > parallel / 64 else "cores"
        print(f"| {case} | {one[case]:.1f} | {two[case]:.1f} | ×{one[case] / two[case]:.2f} | {serial:.1f} "
              f"| {at(16):.1f} | {at(64):.1f} | {limit} |", flush=True)


if __name__ == "__main__":
    main()
