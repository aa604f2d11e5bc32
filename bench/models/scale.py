"""What more cores would give: our forward passes on one and two cores, a model of the cost, and its forecast.

Two processes of one thread each, side by side, say what a pass costs on one core while the other one works (they share
memory and clock, not work). Half of that is the prediction for one pass on two threads if nothing in it were serial.
One process of two threads says what it really takes; the rest is what runs on one thread, is handed over, or waits for
the last: `serial`. T(n) = serial + parallel / n, bounded below by what memory can deliver: every pass reads the weights
once per 1,024 rows. Needs a quiet machine with two cores or more.
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


class Ours:
    """Our side in a process of so many threads."""

    def __init__(self, binary, folder, precision, threads):
        environment = dict(os.environ, RAYON_NUM_THREADS=str(threads))
        self.process = subprocess.Popen([binary, folder, "best", precision], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)

    def read(self):
        return self.process.stdout.readline()

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def milliseconds(together, case):
    """One pass in every process at once: the mean."""
    for ours in together:
        ours.ask(case)
    return statistics.mean(json.loads(ours.read())["ms"] for ours in together)


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
        start = lambda threads: Ours(args.binary, folder, args.precision, threads)
        first, second, both = start(1), start(1), start(2)
        for ours in (first, second, both):
            assert ours.read().startswith("ready"), "our side did not start"
    print(f"{race.cpu_name()}, {args.precision}, medians of {args.rounds}", file=sys.stderr)
    print("| case | 1 thread ms | beside another ms | 2 threads: predicted ms | measured ms | serial ms | 16 cores ms "
          "| 64 cores ms | limited by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        settings = {"alone": [first], "beside": [first, second], "two": [both]}
        taken = {name: [] for name in settings}
        for round_ in range(args.rounds + 1):
            for name, together in settings.items():
                found = milliseconds(together, case)
                if round_ > 0:  # the first round warms all up
                    taken[name].append(found)
        alone, beside, two = (statistics.median(values) for values in taken.values())
        rows = int(case.split()[1]) * int(case.split()[2])
        predicted = beside / 2
        # two = serial + (beside - serial) / 2
        serial = min(max(0.0, 2 * two - beside), two)
        parallel = beside - serial
        memory = WEIGHTS * BYTES[args.precision] * -(-rows // 1024) / args.gbytes / 1e6
        at = lambda n: max(serial + parallel / n, memory)
        limit = "memory" if memory > serial + parallel / 64 else "the serial part" if serial > parallel / 64 else "cores"
        print(f"| {case} | {alone:.1f} | {beside:.1f} | {predicted:.1f} | {two:.1f} ({two / predicted - 1:+.0%}) "
              f"| {serial:.1f} | {at(16):.1f} | {at(64):.1f} | {limit} |", flush=True)
    for ours in (first, second, both):
        ours.close()


if __name__ == "__main__":
    main()
