"""Race our forward passes against PyTorch: same random weights, same tokens, one interleaved run.

PyTorch runs eager code on `scaled_dot_product_attention` under `inference_mode`, as a careful user would
write it: in f32, with everything in bfloat16, under autocast, or with its dynamically quantised linear layers; or
ONNX Runtime runs the same network, exported and dynamically quantised (`onnx-int8`). Several of them
(`--against f32,bf16,onnx-int8`) take turns with us in one run and get a column each.
Prints per case the median milliseconds of all, their ratios, our GFLOP/s against the peak of that precision
measured on the same threads, and how far apart the results are; too far, and the race is called off.
"""

import argparse
import copy
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

if "avx2" in sys.argv[1:]:  # before torch starts: hold both sides to 256-bit vectors
    os.environ.update(ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
if "avx512" in sys.argv[1:]:  # the same for vectors, without the tiles of AMX
    os.environ.update(ONEDNN_MAX_CPU_ISA="AVX512_CORE_BF16")

import torch
import torch.nn.functional as F

D, HEADS, LAYERS, INNER, COND = 768, 12, 12, 3072, 128
V_DIT, V_GPT2, V_ROBERTA = 50258, 50257, 50265
CASES = [
    ("dit", 1, 128, "plain"), ("dit", 1, 128, "head"),
    ("dit", 8, 128, "plain"), ("dit", 8, 128, "head"),
    ("dit", 16, 128, "plain"), ("dit", 16, 128, "head"),
    ("roberta", 10, 150, "plain"), ("roberta", 40, 150, "plain"),
    ("gpt2", 10, 150, "plain"), ("gpt2", 40, 150, "plain"),
    ("gpt2", 10, 150, "siblings"),
]

SIDES = ["f32", "bf16", "autocast", "int8", "onnx-int8"]


def matrix(out, inp):
    return torch.randn(out, inp) * (0.7 / inp**0.5)


def vector(n, mean=0.0):
    return mean + 0.1 * torch.randn(n)


class Writer:
    """Remembers tensors in the order they are made and writes them for the other side."""

    def __init__(self):
        self.tensors = []

    def __call__(self, tensor):
        self.tensors.append(tensor)
        return tensor

    def save(self, path):
        with open(path, "wb") as file:
            for tensor in self.tensors:
                file.write(tensor.contiguous().numpy().tobytes())


QUANTISED = {}  # a weight's id: PyTorch's dynamically quantised layer
IN_USE = {}  # these, while PyTorch runs in int8


def linear(x, weight, bias=None):
    layer = IN_USE.get(id(weight))
    return F.linear(x, weight, bias) if layer is None else layer(x)


def quantise(model):
    """Replaces linear layers as `quantize_dynamic` does, all but the DiT's few on one noise level."""
    from torch.ao.quantization import quantize_dynamic

    def replace(part, name, bias):
        weight = part[name]
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias in part)
        layer.weight.data = weight
        if bias in part:
            layer.bias.data = part[bias]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            QUANTISED[id(weight)] = quantize_dynamic(torch.nn.Sequential(layer), {torch.nn.Linear}, torch.qint8)

    for block in model.blocks:
        for name in ("qkv", "o", "up", "down"):
            replace(block, name, name + "b")
    own = vars(model)
    for name, bias in (("head", "headb"), ("dense", "denseb"), ("out", "outb")):
        if name in own:
            replace(own, name, bias)
    if isinstance(model, GPT2):
        replace(own, "embed", "none")  # its head; the table is read as it is


def halved(model):
    """The same with everything in bfloat16, as `model.bfloat16()` does."""
    model = copy.copy(model)
    model.blocks = [dict(block) for block in model.blocks]
    for part in [vars(model), *model.blocks]:
        for name, value in part.items():
            if isinstance(value, torch.Tensor):
                part[name] = value.bfloat16()
    return model


class Onnx:
    """The same networks in ONNX Runtime: exported once for each kind of case, with linear layers quantised dynamically."""

    def __init__(self, models, folder, threads):
        self.models, self.folder, self.threads, self.sessions = models, folder, threads, {}

    def session(self, model, rows, length, variant):
        import onnx
        import onnxruntime
        from onnxruntime.quantization import QuantType, quantize_dynamic

        network = self.models[model]

        class Exported(torch.nn.Module):
            def __init__(self):
                super().__init__()
                # What belongs to the module is exported as a weight, which is what quantisation looks for.
                for at, part in enumerate([vars(network), *network.blocks]):
                    for name, value in part.items():
                        if isinstance(value, torch.Tensor):
                            self.register_buffer(f"w{at}_{name}", value)

            def forward(self, ids):
                return network(ids, variant)

        plain, small = (os.path.join(self.folder, f"{kind}.onnx") for kind in ("plain", "small"))
        with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(Exported().eval(), (torch.zeros(rows, length, dtype=torch.long),), plain, opset_version=17,
                              input_names=["ids"], output_names=["sum"], dynamo=False)
        quantize_dynamic(plain, small, weight_type=QuantType.QInt8, extra_options={"MatMulConstBOnly": True})
        if not any("Integer" in node.op_type for node in onnx.load(small, load_external_data=False).graph.node):
            sys.exit("onnx-int8: nothing was quantised")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        return onnxruntime.InferenceSession(small, options, providers=["CPUExecutionProvider"])

    def __call__(self, model, ids, variant):
        key = (model, *ids.shape, "plain" if variant == "siblings" else variant)
        if key not in self.sessions:
            self.sessions = {key: self.session(*key)}  # one at a time: each holds the weights
        return self.sessions[key].run(None, {"ids": ids.numpy()})[0]


def missing_for_onnx():
    """What is not installed that `onnx-int8` needs."""
    return [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]


def heads(x):
    return x.view(x.shape[0], x.shape[1], HEADS, D // HEADS).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], D)


class DiT:
    """mdlm's network: adaLN modulation from a constant noise level, rotary halves, tanh GELU."""

    def __init__(self, keep):
        self.c1, self.c1b = keep(matrix(COND, 256)), keep(vector(COND))
        self.c2, self.c2b = keep(matrix(COND, COND)), keep(vector(COND))
        self.embed = keep(torch.randn(V_DIT, D))
        self.blocks = [
            dict(n1=keep(vector(D, 1)), ada=keep(matrix(6 * D, COND)), adab=keep(vector(6 * D)),
                 qkv=keep(matrix(3 * D, D)), o=keep(matrix(D, D)), n2=keep(vector(D, 1)),
                 up=keep(matrix(INNER, D)), upb=keep(vector(INNER)),
                 down=keep(matrix(D, INNER)), downb=keep(vector(D)))
            for _ in range(LAYERS)
        ]
        self.n, self.ada, self.adab = keep(vector(D, 1)), keep(matrix(2 * D, COND)), keep(vector(2 * D))
        self.head, self.headb = keep(matrix(V_DIT, D)), keep(vector(V_DIT))
        frequency = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float32) / 64)
        angle = torch.arange(1024, dtype=torch.float32)[:, None] * frequency
        self.cos, self.sin = angle.cos(), angle.sin()

    def rotate(self, x):
        cos, sin = self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def __call__(self, ids, variant):
        wave = torch.cat((torch.ones(128), torch.zeros(128))).to(self.c1.dtype)
        c = F.silu(linear(F.silu(linear(wave, self.c1, self.c1b)), self.c2, self.c2b))
        x = F.embedding(ids, self.embed)
        for b in self.blocks:
            shift1, scale1, gate1, shift2, scale2, gate2 = linear(c, b["ada"], b["adab"]).chunk(6)
            h = F.layer_norm(x, (D,), b["n1"]) * (1 + scale1) + shift1
            q, k, v = (heads(y) for y in linear(h, b["qkv"]).chunk(3, dim=-1))
            h = merge(F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v))
            x = x + gate1 * linear(h, b["o"])
            h = F.layer_norm(x, (D,), b["n2"]) * (1 + scale2) + shift2
            h = F.gelu(linear(h, b["up"], b["upb"]), approximate="tanh")
            x = x + gate2 * linear(h, b["down"], b["downb"])
        shift, scale = linear(c, self.ada, self.adab).chunk(2)
        x = F.layer_norm(x, (D,), self.n) * (1 + scale) + shift
        if variant == "head":
            return linear(x, self.head, self.headb).argmax(-1).double().sum()
        return x.abs().double().sum()


def plain_blocks(keep):
    blocks = []
    for _ in range(LAYERS):
        b = dict(n1=keep(vector(D, 1)), n1b=keep(vector(D)))
        parts = [(keep(matrix(D, D)), keep(vector(D))) for _ in range(3)]
        # One fused product for q, k and v, as fast PyTorch code does it.
        b["qkv"], b["qkvb"] = torch.cat([w for w, _ in parts]), torch.cat([w for _, w in parts])
        b["o"], b["ob"] = keep(matrix(D, D)), keep(vector(D))
        b["n2"], b["n2b"] = keep(vector(D, 1)), keep(vector(D))
        b["up"], b["upb"] = keep(matrix(INNER, D)), keep(vector(INNER))
        b["down"], b["downb"] = keep(matrix(D, INNER)), keep(vector(D))
        blocks.append(b)
    return blocks


def attention(b, x, causal):
    q, k, v = (heads(y) for y in linear(x, b["qkv"], b["qkvb"]).chunk(3, dim=-1))
    return linear(merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal)), b["o"], b["ob"])


class GPT2:
    """A scorer: negative log-likelihood of every token."""

    def __init__(self, keep):
        self.embed, self.positions = keep(matrix(V_GPT2, D) * 10), keep(torch.randn(1024, D) * 0.1)
        self.blocks = plain_blocks(keep)
        self.n, self.nb = keep(vector(D, 1)), keep(vector(D))

    def __call__(self, ids, variant):
        x = F.embedding(ids[:, :-1], self.embed) + self.positions[: ids.shape[1] - 1]
        for b in self.blocks:
            x = x + attention(b, F.layer_norm(x, (D,), b["n1"], b["n1b"]), True)
            h = F.layer_norm(x, (D,), b["n2"], b["n2b"])
            h = F.gelu(linear(h, b["up"], b["upb"]), approximate="tanh")
            x = x + linear(h, b["down"], b["downb"])
        logits = linear(F.layer_norm(x, (D,), self.n, self.nb), self.embed)
        nll = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        return nll.double().sum()


class Roberta:
    """A classifier on the first token."""

    def __init__(self, keep):
        self.embed, self.positions = keep(torch.randn(V_ROBERTA, D)), keep(torch.randn(514, D) * 0.1)
        self.kind, self.n, self.nb = keep(vector(D)), keep(vector(D, 1)), keep(vector(D))
        self.blocks = plain_blocks(keep)
        self.dense, self.denseb = keep(matrix(D, D)), keep(vector(D))
        self.out, self.outb = keep(matrix(3, D)), keep(vector(3))

    def __call__(self, ids, variant):
        x = F.embedding(ids, self.embed) + self.positions[2 : 2 + ids.shape[1]] + self.kind
        x = F.layer_norm(x, (D,), self.n, self.nb)
        for b in self.blocks:
            x = F.layer_norm(x + attention(b, x, False), (D,), b["n1"], b["n1b"])
            h = linear(F.gelu(linear(x, b["up"], b["upb"])), b["down"], b["downb"])
            x = F.layer_norm(x + h, (D,), b["n2"], b["n2b"])
        h = torch.tanh(linear(x[:, 0], self.dense, self.denseb))
        return linear(h, self.out, self.outb).abs().double().sum()


def tokens(rows, length, vocabulary, siblings):
    def token(row, i):
        row = 0 if siblings and i != length // 2 else row
        return (row * 104729 + i * 7919 + 13) % (vocabulary - 10) + 5

    return torch.tensor([[token(row, i) for i in range(length)] for row in range(rows)])


def flops(model, rows, length, variant):
    """Floating-point operations of the whole network as PyTorch runs it."""
    if model == "gpt2":
        length -= 1
    t = rows * length
    layer = 2 * t * D * (4 * D + 2 * INNER) + 4 * t * length * D
    vocabulary = V_DIT if model == "dit" else V_GPT2
    with_head = model == "gpt2" or variant == "head"
    return LAYERS * layer + (2 * t * D * vocabulary if with_head else 0)


def foreign(before, after, own):
    """Share of the machine's CPU time that others used between two readings of /proc/stat."""
    busy = (sum(after[:3]) - sum(before[:3])) / os.sysconf("SC_CLK_TCK")
    total = (sum(after[:8]) - sum(before[:8])) / os.sysconf("SC_CLK_TCK")
    return max(0.0, busy - own) / max(total, 1e-9)


def cpu_name():
    try:
        with open("/proc/cpuinfo") as file:
            known = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines())
        known = {key.strip(): value.strip() for key, value in known.items()}
        return f"{known['model name']} (family {known['cpu family']}, model {known['model']})"
    except (OSError, KeyError, ValueError):
        return "unknown CPU"


def stat():
    try:
        with open("/proc/stat") as file:
            return [int(x) for x in file.readline().split()[1:]]
    except OSError:
        return [0] * 8


def name_of(side):
    return "ONNX Runtime int8" if side == "onnx-int8" else f"PyTorch {side}"


def bound(case, precision, side):
    """How far apart two results may be: sums of token ids by near-ties, everything else by rounding."""
    coarse = {"f32": 1e-4, "bf16": 2e-2, "autocast": 2e-2, "int8": 5e-2, "onnx-int8": 5e-2}
    most = max(coarse[precision], coarse[side])
    if case[3] == "head":
        # Random logits are near-ties; rounded to bfloat16, as PyTorch returns them, many are ties.
        return 2e-2 if most == coarse["f32"] else 0.15
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="target/release/examples/race")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="run cases whose name contains this")
    parser.add_argument("--cpu", action="store_true", help="compare CPU time; only fair with --threads 1")
    parser.add_argument("--isa", choices=["best", "avx512", "avx2"], default="best",
                        help="hold both sides to AVX-512 without AMX, or to AVX2")
    parser.add_argument("--precision", choices=["f32", "bf16", "int8"], default="f32", help="of both sides")
    parser.add_argument("--against", help=f"what we race, by comma; of {', '.join(SIDES)}; autocast is bfloat16 by its own "
                        "rules [default: PyTorch in our precision]")
    parser.add_argument("--json", action="store_true", help="one JSON object per case on stdout")
    args = parser.parse_args()

    sides = (args.against or args.precision).split(",")
    for side in sides:
        if side not in SIDES:
            parser.error(f"--against: expected some of {', '.join(SIDES)}, got {side}")
    if "onnx-int8" in sides and (missing := missing_for_onnx()):
        print(f"onnx-int8 is left out: not installed: {', '.join(missing)} (pip install {' '.join(missing)})", file=sys.stderr)
        sides.remove("onnx-int8")
    if not sides:
        sys.exit("nobody is left to race")
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        for name, kind in (("dit", DiT), ("gpt2", GPT2), ("roberta", Roberta)):
            keep = Writer()
            models[name] = kind(keep)
            keep.save(os.path.join(folder, name + ".bin"))
        environment = dict(os.environ, RAYON_NUM_THREADS=str(args.threads))
        ours = subprocess.Popen([args.binary, folder, args.isa, args.precision], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True, env=environment)
        found = ours.stdout.readline().split()
        assert found[:1] == ["ready"], "our side did not start"
    # The weights are read; the folder is gone.
    if "int8" in sides:
        for model in models.values():
            quantise(model)
    narrow = {name: halved(model) for name, model in models.items()} if "bf16" in sides else {}
    room = tempfile.TemporaryDirectory()
    onnx = Onnx(models, room.name, args.threads)

    def ask(line):
        print(line, file=ours.stdin, flush=True)
        return json.loads(ours.stdout.readline())

    def ask_side(side, model, rows, length, variant):
        vocabulary = {"dit": V_DIT, "gpt2": V_GPT2, "roberta": V_ROBERTA}[model]
        ids = tokens(rows, length, vocabulary, variant == "siblings")
        if side == "onnx-int8":
            run = lambda: onnx(model, ids, variant)
        else:
            network = (narrow if side == "bf16" else models)[model]
            run = lambda: network(ids, variant)
        IN_USE.update(QUANTISED if side == "int8" else {})
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=side == "autocast"):
            cpu, start = time.process_time(), time.perf_counter()
            result = float(run())
            wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        IN_USE.clear()
        return {"ms": wall * 1e3, "cpu_ms": cpu * 1e3, "result": result}

    peak = max(ask("peak")["gflops"] for _ in range(3))
    print(f"{cpu_name()}; detected: {' '.join(found[1:])}; ours {args.precision}, against {', '.join(sides)}", file=sys.stderr)
    unit = {"f32": "FMA", "bf16": "bf16", "int8": "int8"}[args.precision]
    print(f"torch {torch.__version__}, {args.threads} threads, {unit} peak {peak:.0f} GFLOP/s", file=sys.stderr)
    key = "cpu_ms" if args.cpu else "ms"
    names = [name_of(side) for side in sides]
    if not args.json:
        print(f"| case | {' | '.join(f'{name} ms' for name in names)} | ours ms | {' | '.join(f'ratio to {name}' for name in names)} "
              "| our GFLOP/s | of peak | off by | others' CPU |")
        print("|---" * (2 * len(names) + 6) + "|")
    worst = dict.fromkeys(sides, float("inf"))
    for case in CASES:
        name = " ".join(map(str, case))
        if args.only not in name:
            continue
        taken, busy, off = {side: [] for side in (*sides, "ours")}, [], dict.fromkeys(sides, 0.0)
        for round_ in range(args.rounds + 1):
            before = stat()
            found = {side: ask_side(side, *case) for side in sides}
            found["ours"] = y = ask(name)
            busy.append(foreign(before, stat(), sum(one["cpu_ms"] for one in found.values()) / 1e3))
            for side in sides:
                x = found[side]
                off[side] = max(off[side], abs(x["result"] - y["result"]) / max(1.0, abs(x["result"])))
                if off[side] > bound(case, args.precision, side):
                    sys.exit(f"{name}: {name_of(side)} computed {x['result']}, we computed {y['result']}")
            if round_ > 0:  # the first round warms all up
                for side, one in found.items():
                    taken[side].append(one[key])
        ms = {side: statistics.median(values) for side, values in taken.items()}
        mine = ms.pop("ours")
        speed = flops(*case) / mine / 1e6
        ratios = {side: round(theirs / mine, 2) for side, theirs in ms.items()}
        apart = max(off.values())
        line = {"case": name, "theirs_ms": {side: round(x, 1) for side, x in ms.items()}, "ours_ms": round(mine, 1),
                "ratio": ratios, "gflops": round(speed, 1), "peak": peak, "share_of_peak": round(speed / peak, 2),
                "off": {side: float(f"{x:.1e}") for side, x in off.items()}, "foreign": round(statistics.median(busy), 2)}
        worst = {side: min(worst[side], ratio) for side, ratio in ratios.items()}
        if args.json:
            print(json.dumps(line), flush=True)
        else:
            print(f"| {name} | {' | '.join(f'{x:.1f}' for x in ms.values())} | {mine:.1f} "
                  f"| {' | '.join(f'×{ratio:.2f}' for ratio in ratios.values())} | {speed:.0f} | {speed / peak:.0%} "
                  f"| {apart:.0e} | {line['foreign']:.0%} |", flush=True)
    ours.stdin.close()
    ours.wait()
    for side in sides:
        print(f"worst ratio ×{worst[side]:.2f}" + (f" to {name_of(side)}" if len(sides) > 1 else ""), file=sys.stderr)


if __name__ == "__main__":
    main()
