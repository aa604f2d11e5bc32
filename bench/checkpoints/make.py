"""Writes a checkpoint with the shapes, vocabulary and config of LLaDA-8B or Dream-7B, and random weights, to see how it
loads and runs.

    python make.py OUT --kind bf16        # 16.0 GB: four safetensors shards with their index
    python make.py OUT --kind q8_0        #  8.5 GB: one GGUF file
    python make.py OUT --kind q4_k        #  4.9 GB: one GGUF file, as Q4_K_M mixes Q4_K and Q6_K
    python make.py OUT --kind bf16 --layers 2    # the same at reduced depth
    python make.py OUT --family dream --layers 2

The rows of a matrix repeat every 256, which no product can tell; a file is written as fast as the disk takes it. The
tokenizer is one of bytes (and " t") with the family's special tokens at their ids, so that texts and conversations go in and out.
Needs numpy, and gguf for the GGUF kinds (made with numpy 2, gguf 0.19).
"""

import argparse
import json
import pathlib

import numpy as np

TILE = 256
#: The one merge of the tokenizer: GGUF files without any are not written.
MERGED = "Ġ t"
noise = np.random.default_rng(8)

#: Sizes and special tokens as the published config and tokenizer have them.
FAMILIES = {
    "llada": {
        "width": 4096, "mlp": 12288, "heads": 32, "kv_heads": 32, "layers": 32, "vocabulary": 126464, "positions": 4096,
        "theta": 500000.0, "eps": 1e-5, "bias": False, "pre": "bailingmoe", "mask": 126336, "eos": 126081, "bos": 126080,
        "special": {126080: "<|startoftext|>", 126081: "<|endoftext|>", 126336: "<|mdm_mask|>", 126346: "<|start_header_id|>",
                    126347: "<|end_header_id|>", 126348: "<|eot_id|>"},
        "root": "model.transformer.", "block": "model.transformer.blocks.", "names": {
            "token_embd": "wte", "output": "ff_out", "output_norm": "ln_f", "attn_norm": "attn_norm", "ffn_norm": "ff_norm",
            "attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "attn_out", "ffn_gate": "ff_proj",
            "ffn_up": "up_proj", "ffn_down": "ff_out"},
    },
    "dream": {
        "width": 3584, "mlp": 18944, "heads": 28, "kv_heads": 4, "layers": 28, "vocabulary": 152064, "positions": 131072,
        "theta": 1000000.0, "eps": 1e-6, "bias": True, "pre": "qwen2", "mask": 151666, "eos": 151643, "bos": 151643,
        "special": {151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>", 151665: "<|beginoftext|>", 151666: "<|mask|>"},
        "root": "model.", "block": "model.layers.", "names": {
            "token_embd": "embed_tokens", "output": "lm_head", "output_norm": "norm", "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"},
    },
}


def shapes(family, layers):
    """Names as in GGUF files, and shapes, in the order of the file."""
    d, mlp, kv = family["width"], family["mlp"], family["width"] // family["heads"] * family["kv_heads"]
    yield "token_embd.weight", (family["vocabulary"], d)
    for i in range(layers):
        block = f"blk.{i}."
        yield block + "attn_norm.weight", (d,)
        yield block + "ffn_norm.weight", (d,)
        for name, rows in (("attn_q", d), ("attn_k", kv), ("attn_v", kv), ("attn_output", d)):
            yield f"{block}{name}.weight", (rows, d)
            if family["bias"] and name != "attn_output":
                yield f"{block}{name}.bias", (rows,)
        for name in ("ffn_gate", "ffn_up"):
            yield f"{block}{name}.weight", (mlp, d)
        yield block + "ffn_down.weight", (d, mlp)
    yield "output_norm.weight", (d,)
    yield "output.weight", (family["vocabulary"], d)


def published(family, name):
    """The name that the published checkpoint has for it."""
    *block, short, kind = name.split(".")
    if block:
        return f"{family['block']}{block[1]}.{family['names'][short]}.{kind}"
    root = "" if family["names"][short] == "lm_head" else family["root"]
    return f"{root}{family['names'][short]}.{kind}"


def tile(inputs):
    return noise.standard_normal((TILE, inputs), dtype=np.float32) / np.sqrt(np.float32(inputs))


def config(family, layers):
    if family["bias"]:
        return {
            "architectures": ["DreamModel"], "attention_dropout": 0.0, "bos_token_id": family["bos"], "eos_token_id": family["eos"],
            "hidden_act": "silu", "hidden_size": family["width"], "initializer_range": 0.02, "intermediate_size": family["mlp"],
            "mask_token_id": family["mask"], "max_position_embeddings": family["positions"], "max_window_layers": 28, "model_type": "Dream",
            "num_attention_heads": family["heads"], "num_hidden_layers": layers, "num_key_value_heads": family["kv_heads"],
            "pad_token_id": family["eos"], "rms_norm_eps": family["eps"], "rope_scaling": None, "rope_theta": family["theta"],
            "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_sliding_window": False,
            "vocab_size": family["vocabulary"],
        }
    return {
        "activation_type": "silu", "alibi": False, "architectures": ["LLaDAModelLM"], "attention_layer_norm": False,
        "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": family["width"],
        "embedding_size": family["vocabulary"], "eos_token_id": family["eos"], "include_bias": False, "include_qkv_bias": False,
        "input_emb_norm": False, "layer_norm_type": "rms", "layer_norm_with_affine": True, "mask_token_id": family["mask"],
        "max_sequence_length": family["positions"], "mlp_hidden_size": family["mlp"], "model_type": "llada", "n_heads": family["heads"],
        "n_kv_heads": family["kv_heads"], "n_layers": layers, "pad_token_id": family["eos"], "rms_norm_eps": family["eps"], "rope": True,
        "rope_theta": family["theta"], "scale_logits": False, "torch_dtype": "bfloat16", "vocab_size": family["vocabulary"],
        "weight_tying": False,
    }


def letters():
    """GPT-2's printable stand-ins of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [table[byte] for byte in range(256)]


def tokenizer(out, special):
    vocabulary = {letter: i for i, letter in enumerate(letters() + [MERGED.replace(" ", "")])}
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, text in special.items()]
    # Ids without an entry count as padding of the vocabulary; every id up to the last special one has one.
    vocabulary |= {special.get(i, f"<unused{i}>"): i for i in range(257, max(special) + 1)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    made = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                      "merges": [MERGED]}}
    (out / "tokenizer.json").write_text(json.dumps(made))
    said = {"bos_token": special[min(special)], "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    (out / "tokenizer_config.json").write_text(json.dumps(said))


def bf16(values):
    return ((values.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def write_bf16(out, family, layers):
    tiles = {inputs: bf16(tile(inputs)).tobytes() for inputs in (family["width"], family["mlp"])}
    all_, shards, size = [(published(family, name), shape) for name, shape in shapes(family, layers)], [[]], 0
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
                    to.write(bf16(np.ones(shape, np.float32)).tobytes())
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


def write_gguf(out, called, family, layers, kind):
    import gguf

    to = gguf.GGUFWriter(out / f"{called}-{kind}.gguf", called)
    for key, value in [("context_length", family["positions"]), ("embedding_length", family["width"]), ("block_count", layers),
                       ("feed_forward_length", family["mlp"]), ("attention.head_count", family["heads"]),
                       ("attention.head_count_kv", family["kv_heads"]), ("vocab_size", family["vocabulary"])]:
        to.add_uint32(f"{called}.{key}", value)
    to.add_float32(f"{called}.attention.layer_norm_rms_epsilon", family["eps"])
    to.add_float32(f"{called}.rope.freq_base", family["theta"])
    to.add_tokenizer_model("gpt2")
    to.add_tokenizer_pre(family["pre"])
    entries = letters() + [MERGED.replace(" ", "")] + [f"<unused{i}>" for i in range(257, family["vocabulary"])]
    kinds = [1] * 257 + [5] * (family["vocabulary"] - 257)
    for i, text in family["special"].items():
        entries[i], kinds[i] = text, 3
    to.add_token_list(entries)
    to.add_token_types(kinds)
    to.add_token_merges([MERGED])
    to.add_bos_token_id(family["bos"])
    to.add_eos_token_id(family["eos"])
    to.add_mask_token_id(family["mask"])
    to.add_causal_attention(False)
    to.add_diffusion_shift_logits(called == "dream")
    made, listed = {}, []

    def raw(kind, shape):
        if (kind, shape[1]) not in made:
            made[kind, shape[1]] = blocks(kind, shape[1]).reshape(TILE, -1)
        part = made[kind, shape[1]]
        return np.concatenate([part] * (shape[0] // TILE) + [part[: shape[0] % TILE]])

    for name, shape in shapes(family, layers):
        *block, short, _ = name.split(".")
        finer = kind == "q4_k" and (short == "output" or (short in ("attn_v", "ffn_down") and int(block[1]) % 2 == 0))
        own = "F32" if len(shape) == 1 else "Q6_K" if finer else {"q4_k": "Q4_K", "q8_0": "Q8_0"}[kind]
        own = gguf.GGMLQuantizationType[own]
        numbers, size = gguf.GGML_QUANT_SIZES[own]
        to.add_tensor_info(name, shape, np.float32, int(np.prod(shape)) // numbers * size, raw_dtype=own)
        listed.append((own.name, shape))
    to.write_header_to_file()
    to.write_kv_data_to_file()
    to.write_ti_data_to_file()
    # One tensor at a time, so that no more than the largest is held.
    for own, shape in listed:
        to.write_tensor_data(np.ones(shape, np.float32) if len(shape) == 1 else raw(own, shape))
    to.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--kind", choices=["bf16", "q8_0", "q4_k"], default="bf16")
    parser.add_argument("--family", choices=list(FAMILIES), default="llada")
    parser.add_argument("--layers", type=int, help="all by default")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    family = FAMILIES[given.family]
    layers = given.layers or family["layers"]
    if given.kind == "bf16":
        (given.out / "config.json").write_text(json.dumps(config(family, layers), indent=1))
        tokenizer(given.out, family["special"])
        write_bf16(given.out, family, layers)
    else:
        write_gguf(given.out, given.family, family, layers, given.kind)
    print(given.out, sum(file.stat().st_size for file in given.out.iterdir()) / 1e9, "GB")


main()
