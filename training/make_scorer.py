"""Write the fluency scorer: the story model itself, vocabulary cut, in the Llama layout.

    python make_scorer.py --out ../assets/pocket/scorer

Prints the mean negative log-likelihood on held-out stories of the original model (own forward pass over the
full vocabulary, interleaved rotary pairs), of the original restricted to the kept ids, and of the written
directory as transformers' LlamaForCausalLM runs it.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import llada
import stories
import story_model
import vocabulary
from story_model import BOS


def tensors(story, kept_ids):
    t = story.tensors
    wte = t["wte"][kept_ids]
    out = {"model.embed_tokens.weight": np.concatenate([wte, wte.mean(0, keepdims=True)]), "model.norm.weight": t["ln_f"]}
    for i in range(story.layers):
        layer = {
            "input_layernorm": t["attn_norm"][i],
            "self_attn.q_proj": story_model.half_layout(t["q"][i], story.heads),
            "self_attn.k_proj": story_model.half_layout(t["k"][i], story.kv_heads),
            "self_attn.v_proj": t["v"][i],
            "self_attn.o_proj": t["attn_out"][i],
            "post_attention_layernorm": t["ff_norm"][i],
            "mlp.gate_proj": t["gate"][i],
            "mlp.up_proj": t["up"][i],
            "mlp.down_proj": t["down"][i],
        }
        out |= {f"model.layers.{i}.{name}.weight": value for name, value in layer.items()}
    return {name: torch.from_numpy(np.ascontiguousarray(value)).half() for name, value in out.items()}


def config_json(story, rows):
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": BOS,
        "eos_token_id": BOS,
        "pad_token_id": BOS,
        "head_dim": story.dim // story.heads,
        "hidden_act": "silu",
        "hidden_size": story.dim,
        "initializer_range": 0.02,
        "intermediate_size": story.hidden,
        "max_position_embeddings": story.context,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": story.heads,
        "num_hidden_layers": story.layers,
        "num_key_value_heads": story.kv_heads,
        "pretraining_tp": 1,
        "rms_norm_eps": llada.EPS,
        "rope_scaling": None,
        "rope_theta": llada.ROPE_THETA,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "use_cache": True,
        "vocab_size": rows,
    }


@torch.no_grad()
def original_logits(story, ids):
    """The story model as llama2.c computes it: interleaved pairs, causal, full vocabulary."""
    t = {name: torch.from_numpy(value) for name, value in story.tensors.items()}
    norm = lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + llada.EPS) * w
    rows, length = ids.shape
    cos, sin = t["rope_cos"][:length, None], t["rope_sin"][:length, None]

    def rotate(y):
        a, b = y[..., 0::2], y[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    x = t["wte"][ids]
    for i in range(story.layers):
        h = norm(x, t["attn_norm"][i])
        q, k, v = ((h @ t[n][i].T).view(rows, length, story.heads, -1) for n in "qkv")
        q, k, v = (y.transpose(1, 2) for y in (rotate(q), rotate(k), v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).reshape(rows, length, -1) @ t["attn_out"][i].T
        h = norm(x, t["ff_norm"][i])
        x = x + (F.silu(h @ t["gate"][i].T) * (h @ t["up"][i].T)) @ t["down"][i].T
    return norm(x, t["ln_f"]) @ t["wte"].T


def mean_nll(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(ids), -1).mean(1)


@torch.no_grad()
def compare(story, kept_ids, out, data, stories_used=200, length=128):
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

    tokenizer = Tokenizer.from_file(f"{out}/tokenizer.json")
    _, held = stories.split(stories.read(data))
    ids = [tokenizer.encode(text).ids for text, _ in held]
    ids = torch.tensor([row[:length] for row in ids if len(row) >= length][:stories_used])
    kept = torch.from_numpy(kept_ids)
    model = LlamaForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    results = {"original, full vocabulary": [], "original, kept ids": [], "written directory": [],
               "written directory, mask row in the softmax": []}
    largest = 0.0
    for part in ids.split(20):
        full = original_logits(story, kept[part])
        every = model(part).logits
        ours = every[..., :-1]  # without the mask row
        largest = max(largest, (full[..., kept] - ours).abs().max().item())
        results["original, full vocabulary"].append(mean_nll(full, kept[part]))
        results["original, kept ids"].append(mean_nll(full[..., kept], part))
        results["written directory"].append(mean_nll(ours, part))
        results["written directory, mask row in the softmax"].append(mean_nll(every, part))
    print(f"largest difference of a kept logit: {largest:.4f}")
    for name, parts in results.items():
        rows = torch.cat(parts)
        half = 1.96 * rows.std() / len(rows) ** 0.5
        print(f"{name}: {rows.mean():.4f} +- {half:.4f} nats per token (n = {len(rows)} stories x {length - 1} tokens)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--story-model", default="../models/llama2.data")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--vocab", default="../runs/vocab")
    parser.add_argument("--out", default="../assets/pocket/scorer")
    args = parser.parse_args()
    story = story_model.load(args.story_model)
    kept_ids = np.load(f"{args.vocab}/kept_ids.npy")
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors(story, kept_ids), out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(config_json(story, len(kept_ids) + 1), indent=2) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (out / name).write_bytes(Path(args.vocab, name).read_bytes())
    compare(story, kept_ids, out, args.data)


if __name__ == "__main__":
    main()
