"""Loads and runs checkpoints that make.py writes, and says what that takes: seconds, memory, tokens a second.

Cold: the files were put out of the page cache before. Peak memory is VmHWM of a process that loads and runs: everything
resident, the pages of the mapped file included, over the bytes of the files. A pass is one forward pass on a text of so many
tokens, half of them masked, with the head at the masks. Text: `treasure generate --method llada`, the model alone, the whole
command without loading. Cores: one process of one thread, two side by side, one process of two threads; T(n) = serial +
parallel / n, bounded below by reading the weights once, as in bench/models/scale.py.

On a busy machine `--cpu` takes CPU time of one thread instead, and writes no text.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
PROMPT = "Tell me about rain."


def files(place):
    return [file for file in place.iterdir() if file.suffix in (".gguf", ".safetensors")]


def evict(place):
    """Puts the files out of the page cache; what another process maps stays."""
    for file in files(place):
        with open(file, "rb") as held:
            os.fsync(held.fileno())
            os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def start(command, threads=None):
    environment = dict(os.environ) if threads is None else dict(os.environ, RAYON_NUM_THREADS=str(threads))
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, env=environment)


def told(process):
    rows = [json.loads(line) for line in process.stdout]
    assert process.wait() == 0, "a process failed"
    return rows


def passes(rows, tokens, clock="seconds"):
    """Seconds and operations of the passes on so many tokens: the fastest but the first, if there are more."""
    found = [row["pass"] for row in rows if row.get("tokens") == tokens]
    best = min(found[1:] or found, key=lambda each: each[clock])
    return best | {"seconds": best[clock]}


def others():
    """Share of the machine that has been busy since the last call."""
    now = [int(word) for word in open("/proc/stat").readline().split()[1:9]]
    before, others.before = getattr(others, "before", now), now
    spent = [b - a for a, b in zip(before, now)]
    return 1 - (spent[3] + spent[4]) / max(sum(spent), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path, help="target/release")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("/tmp/llada8b"), help="a folder with room for the files")
    parser.add_argument("--kinds", nargs="+", default=["bf16", "q8_0", "q4_k"])
    parser.add_argument("--precisions", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--tokens", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--length", type=int, default=64, help="tokens of a text; 0 writes none")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--cpu", action="store_true", help="CPU time of one thread, for a busy machine")
    parser.add_argument("--cores", action="store_true", help="also one thread alone and beside another")
    parser.add_argument("--gbytes", type=float, default=200.0, help="memory bandwidth of the large machine, GB/s")
    parser.add_argument("--cold", action="store_true", help="also with the files out of the page cache")
    parser.add_argument("--keep", action="store_true", help="leave the files")
    given = parser.parse_args()
    threads, clock = (1, "cpu_seconds") if given.cpu else (None, "seconds")
    example = given.binaries / "examples/checkpoint"
    time.sleep(1)
    others()
    time.sleep(1)
    print(f"others' share of the machine: {others():.0%}", flush=True)
    machine = {p: told(start([example, "machine", p], threads))[0] for p in given.precisions}
    for precision, most in machine.items():
        print(f"{most['threads']} threads: {most['flops'] / 1e9:.0f} GFLOP/s in {precision}, "
              f"{most['bytes_a_second'] / 1e9:.1f} GB/s read", flush=True)
    for kind in given.kinds:
        place = given.out / kind
        if not (place.exists() and files(place)):
            subprocess.run([sys.executable, HERE / "make.py", place, "--kind", kind, "--layers", str(given.layers)], check=True)
        size = sum(file.stat().st_size for file in files(place))
        spec = place if kind == "bf16" else files(place)[0]
        print(f"{kind}: {size / 1e9:.2f} GB", flush=True)
        if given.cold:
            evict(place)
            rows = told(start([example, spec, given.precisions[-1], 1, given.tokens[0]]))
            print(f"  cold: loaded in {rows[0]['load_seconds']:.2f} s, first pass {passes(rows, given.tokens[0])['seconds']:.2f} s", flush=True)
        for precision in given.precisions:
            rows = told(start([example, spec, precision, given.rounds, *given.tokens], threads))
            end = rows[-1]
            print(f"  {precision}: loaded in {rows[0]['load_seconds']:.2f} s as {rows[0]['model']['held_as']}, peak {end['peak'] / 1e9:.2f} GB"
                  f" = {end['peak'] / size:.3f} of the files ({end['own'] / 1e9:.2f} GB of its own)", flush=True)
            for tokens in given.tokens:
                found = passes(rows, tokens, clock)
                speed, read = found["operations"] / found["seconds"], size / found["seconds"]
                print(f"    {tokens} tokens: {found['seconds']:.2f} s a pass, {speed / 1e9:.0f} GFLOP/s = "
                      f"{speed / machine[precision]['flops']:.0%} of the peak, weights at {read / 1e9:.1f} GB/s = "
                      f"{read / machine[precision]['bytes_a_second']:.0%} of what memory gives", flush=True)
            if given.length and not given.cpu:
                command = [given.binaries / "treasure", "generate", PROMPT, "--model", spec, "--method", "llada", "--length", given.length,
                           "--steps", given.steps, "--precision", precision, "--reward", "length:1..999", "--seed", "1", "--json", "--quiet"]
                row = told(start(command))[0]
                seconds = row["cost"]["seconds"]
                print(f"    text of {given.length} tokens in {row['cost']['nfe']} passes: {seconds:.1f} s, {given.length / seconds:.2f} tokens/s", flush=True)
            if given.cores and not given.cpu:
                ask = [example, spec, precision, given.rounds, given.tokens[0]]
                seconds = lambda rows: passes(rows, given.tokens[0])["seconds"]
                alone = seconds(told(start(ask, 1)))
                pair = [start(ask, 1), start(ask, 1)]
                beside = statistics.mean([seconds(told(each)) for each in pair])
                two = seconds(told(start(ask, 2)))
                serial = min(max(0.0, 2 * two - beside), two)
                memory = size / given.gbytes / 1e9
                at = [max(serial + (beside - serial) / n, memory) for n in (12, 16, 64)]
                print(f"    cores, {given.tokens[0]} tokens: one {alone:.2f} s, beside another {beside:.2f} s, two {two:.2f} s; serial {serial:.2f} s; "
                      f"12, 16, 64 cores {', '.join(f'{x:.2f}' for x in at)} s", flush=True)
        if not given.keep:
            shutil.rmtree(place)
    print(f"share of the machine that was busy, ours included: {others():.0%}")


if __name__ == "__main__":
    main()
