"""Writes a checkpoint with LLaDA-8B's shapes, vocabulary and config, and random weights, to see how it loads and runs.

    python make.py OUT --kind bf16        # 16.1 GB: four safetensors shards with their index
    python make.py OUT --kind q8_0        #  8.5 GB: one GGUF file
    python make.py OUT --kind q4_k        #  4.6 GB: one GGUF file, as Q4_K_M mixes Q4_K and Q6_K
    python make.py OUT --kind bf16 --layers 2    # the same at reduced depth

The rows of a matrix repeat every 256, which no product can tell; a file is written as fast as the disk takes it. The
tokenizer is one of bytes with LLaDA's special tokens at their ids, so that texts go in and out.
Needs numpy, and gguf for the GGUF kinds (made with numpy 2, gguf 0.17).
"""

import argparse
import json
import pathlib

import numpy as np

D, MLP, HEADS, VOCABULARY, POSITIONS, THETA = 4096, 12288, 32, 126464, 4096, 500000.0
SPECIAL = {126080: "<|startoftext|>", 126081: "<|endoftext|>", 126336: "<|mdm_mask|>", 126346: "<|start_header_id|>",
           126347: "<|end_header_id|>", 126348: "<|eot_id|>"}
TILE = 256
noise = np.random.default_rng(8)


def shapes(layers):
    """LLaDA's names and shapes, in the order of the file."""
    root = "model.transformer."
    yield root + "wte.weight", (VOCABULARY, D)
    for i in range(layers):
        block = f"{root}blocks.{i}."
        yield block + "attn_norm.weight", (D,)
        yield block + "ff_norm.weight", (D,)
        for name in ("q_proj", "k_proj", "v_proj", "attn_out"):
            yield f"{block}{name}.weight", (D, D)
        for name in ("ff_proj", "up_proj"):
            yield f"{block}{name}.weight", (MLP, D)
        yield block + "ff_out.weight", (D, MLP)
    yield root + "ln_f.weight", (D,)
    yield root + "ff_out.weight", (VOCABULARY, D)


def tile(inputs):
    return noise.standard_normal((TILE, inputs), dtype=np.float32) / np.sqrt(np.float32(inputs))


def config(layers):
    return {
        "activation_type": "silu", "alibi": False, "architectures": ["LLaDAModelLM"], "attention_layer_norm": False,
        "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": D,
        "embedding_size": VOCABULARY, "eos_token_id": 126081, "include_bias": False, "include_qkv_bias": False,
        "input_emb_norm": False, "layer_norm_type": "rms", "layer_norm_with_affine": True, "mask_token_id": 126336,
        "max_sequence_length": POSITIONS, "mlp_hidden_size": MLP, "model_type": "llada", "n_heads": HEADS,
        "n_kv_heads": HEADS, "n_layers": layers, "pad_token_id": 126081, "rms_norm_eps": 1e-5, "rope": True,
        "rope_theta": THETA, "scale_logits": False, "torch_dtype": "bfloat16", "vocab_size": VOCABULARY,
        "weight_tying": False,
    }


def letters():
    """GPT-2's printable stand-ins of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [table[byte] for byte in range(256)]


def tokenizer(out):
    vocabulary = {letter: i for i, letter in enumerate(letters())}
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, text in SPECIAL.items()]
    # Ids without an entry count as padding of the vocabulary; every id up to the last special one has one.
    vocabulary |= {f"<unused{i}>": i for i in range(256, max(SPECIAL) + 1) if i not in SPECIAL}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    made = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                      "merges": []}}
    (out / "tokenizer.json").write_text(json.dumps(made))
    said = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    (out / "tokenizer_config.json").write_text(json.dumps(said))


def bf16(values):
    return ((values.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def write_bf16(out, layers):
    tiles = {inputs: bf16(tile(inputs)).tobytes() for inputs in (D, MLP)}
    ones = bf16(np.ones(D, np.float32)).tobytes()
    all_, shards, size = list(shapes(layers)), [[]], 0
    for name, shape in all_:
        size += 2 * int(np.prod(shape))
        if size > 4_200_000_000:
            shards.append([])
            size = 2 * int(np.prod(shape))
        shards[-1].append((name, shape))
    index = {}
    for number, shard in enumerate(shards):
        file = f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
        header, at = {}, 0
        for name, shape in shard:
            end = at + 2 * int(np.prod(shape))
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, end]}
            index[name], at = file, end
        head = json.dumps(header).encode()
        head += b" " * (-len(head) % 8)
        with open(out / file, "wb") as to:
            to.write(len(head).to_bytes(8, "little") + head)
            for _, shape in shard:
                if len(shape) == 1:
                    to.write(ones)
                    continue
                rows, part = shape[0], tiles[shape[1]]
                for _ in range(rows // TILE):
                    to.write(part)
                to.write(part[: len(part) // TILE * (rows % TILE)])
    (out / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def blocks(kind, inputs):
    """Random but valid blocks of a tile: the scales are small, the numbers anything."""
    count = TILE * inputs // 256
    half = lambda value, n: np.full((n, 1), value, np.float16).view(np.uint8)
    some = lambda n, width: noise.integers(0, 256, (n, width), dtype=np.uint8)
    scale = 1.0 / np.sqrt(inputs)
    if kind == "Q4_K":  # d, dmin, scales, numbers
        return np.concatenate([half(scale / 200, count), half(scale / 30, count), some(count, 12), some(count, 128)], 1)
    if kind == "Q6_K":  # low bits, high bits, scales, d
        return np.concatenate([some(count, 128), some(count, 64), some(count, 16), half(scale / 2000, count)], 1)
    return np.concatenate([half(scale / 70, count * 8), some(count * 8, 32)], 1)  # Q8_0: d, numbers


def write_gguf(out, layers, kind):
    import gguf

    names = {"wte": "token_embd", "ln_f": "output_norm", "ff_out": "output"}
    parts = {"attn_norm": "attn_norm", "ff_norm": "ffn_norm", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v",
             "attn_out": "attn_output", "ff_proj": "ffn_gate", "up_proj": "ffn_up", "ff_out": "ffn_down"}
    to = gguf.GGUFWriter(out / f"llada-8b-{kind}.gguf", "llada")
    for key, value in [("context_length", POSITIONS), ("embedding_length", D), ("block_count", layers),
                       ("feed_forward_length", MLP), ("attention.head_count", HEADS), ("attention.head_count_kv", HEADS),
                       ("vocab_size", VOCABULARY)]:
        to.add_uint32(f"llada.{key}", value)
    to.add_float32("llada.attention.layer_norm_rms_epsilon", 1e-5)
    to.add_float32("llada.rope.freq_base", THETA)
    to.add_tokenizer_model("gpt2")
    to.add_tokenizer_pre("default")
    listed = letters() + [f"<unused{i}>" for i in range(256, VOCABULARY)]
    kinds = [1] * 256 + [5] * (VOCABULARY - 256)
    for i, text in SPECIAL.items():
        listed[i], kinds[i] = text, 3
    to.add_token_list(listed)
    to.add_token_types(kinds)
    to.add_token_merges([])
    to.add_bos_token_id(126080)
    to.add_eos_token_id(126081)
    to.add_mask_token_id(126336)
    made = {}

    def raw(kind, shape):
        if (kind, shape[1]) not in made:
            made[kind, shape[1]] = blocks(kind, shape[1]).reshape(TILE, -1)
        part = made[kind, shape[1]]
        return np.concatenate([part] * (shape[0] // TILE) + [part[: shape[0] % TILE]])

    for name, shape in shapes(layers):
        words = name.removeprefix("model.transformer.").removesuffix(".weight").split(".")
        new = f"blk.{words[1]}.{parts[words[2]]}" if words[0] == "blocks" else names[words[0]]
        if len(shape) == 1:
            to.add_tensor(new + ".weight", np.ones(shape, np.float32))
            continue
        finer = kind == "q4_k" and (new == "output" or (new.endswith(("attn_v", "ffn_down")) and int(words[1]) % 2 == 0))
        own = "Q6_K" if finer else {"q4_k": "Q4_K", "q8_0": "Q8_0"}[kind]
        to.add_tensor(new + ".weight", raw(own, shape), raw_dtype=gguf.GGMLQuantizationType[own])
    to.write_header_to_file()
    to.write_kv_data_to_file()
    to.write_tensors_to_file()
    to.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--kind", choices=["bf16", "q8_0", "q4_k"], default="bf16")
    parser.add_argument("--layers", type=int, default=32)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.kind == "bf16":
        (given.out / "config.json").write_text(json.dumps(config(given.layers), indent=1))
        tokenizer(given.out)
        write_bf16(given.out, given.layers)
    else:
        write_gguf(given.out, given.layers, given.kind)
    print(given.out, sum(file.stat().st_size for file in given.out.iterdir()) / 1e9, "GB")


main()
