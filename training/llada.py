"""The denoiser: bidirectional Llama blocks, tied head, in and out of the LLaDA directory layout."""

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from story_model import BOS, half_layout

EPS = 1e-5
ROPE_THETA = 10000.0


def rope_table(length, head_dim):
    frequency = ROPE_THETA ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.outer(torch.arange(length).float(), frequency)
    return torch.cat([angle.cos(), angle.cos()], 1), torch.cat([-angle.sin(), angle.sin()], 1)


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * self.weight


class Block(nn.Module):
    def __init__(self, dim, hidden, heads):
        super().__init__()
        self.heads = heads
        self.attn_norm = Norm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.attn_out = nn.Linear(dim, dim, bias=False)
        self.ff_norm = Norm(dim)
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.ff_out = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, cos, sin):
        rows, length, dim = x.shape
        head_dim = dim // self.heads
        q, k, v = self.qkv(self.attn_norm(x)).view(rows, length, 3, self.heads, head_dim).unbind(2)
        q, k = (y * cos + y.roll(head_dim // 2, -1) * sin for y in (q, k))
        # Written out: PyTorch's fused attention is slower backwards on a CPU than everything else of a step together.
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * head_dim**-0.5  # [rows, heads, length, length]
        attended = scores.softmax(-1).to(v.dtype) @ v.transpose(1, 2)
        x = x + self.attn_out(attended.transpose(1, 2).reshape(rows, length, dim))
        gate, up = self.gate_up(self.ff_norm(x)).chunk(2, -1)
        return x + self.ff_out(F.silu(gate) * up)


class Denoiser(nn.Module):
    def __init__(self, dim, hidden, layers, heads, rows, mask_id, context=256):
        super().__init__()
        self.sizes = dict(dim=dim, hidden=hidden, layers=layers, heads=heads, rows=rows, mask_id=mask_id, context=context)
        self.mask_id = mask_id
        self.wte = nn.Embedding(rows, dim)
        self.blocks = nn.ModuleList(Block(dim, hidden, heads) for _ in range(layers))
        self.ln_f = Norm(dim)
        cos, sin = rope_table(context, dim // heads)
        self.register_buffer("cos", cos[:, None], persistent=False)
        self.register_buffer("sin", sin[:, None], persistent=False)

    def hidden(self, ids):
        x = self.wte(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.ln_f(x)

    def forward(self, ids):
        return self.hidden(ids) @ self.wte.weight.T


def from_story_model(story, kept_ids):
    """Drop the causal mask, cut the vocabulary, add a mask row at the mean embedding."""
    mask_id = len(kept_ids)
    model = Denoiser(story.dim, story.hidden, story.layers, story.heads, mask_id + 1, mask_id, story.context)
    wte = story.tensors["wte"][kept_ids]
    t = story.tensors
    state = {"wte.weight": np.concatenate([wte, wte.mean(0, keepdims=True)]), "ln_f.weight": t["ln_f"]}
    for i in range(story.layers):
        q, k = half_layout(t["q"][i], story.heads), half_layout(t["k"][i], story.heads)
        state |= {
            f"blocks.{i}.attn_norm.weight": t["attn_norm"][i],
            f"blocks.{i}.qkv.weight": np.concatenate([q, k, t["v"][i]]),
            f"blocks.{i}.attn_out.weight": t["attn_out"][i],
            f"blocks.{i}.ff_norm.weight": t["ff_norm"][i],
            f"blocks.{i}.gate_up.weight": np.concatenate([t["gate"][i], t["up"][i]]),
            f"blocks.{i}.ff_out.weight": t["down"][i],
        }
    model.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()})
    return model


def config_json(sizes):
    return {
        "activation_type": "silu",
        "alibi": False,
        "architectures": ["LLaDAModelLM"],
        "attention_dropout": 0.0,
        "attention_layer_norm": False,
        "bias_for_layer_norm": False,
        "block_group_size": 1,
        "block_type": "llama",
        "bos_token_id": BOS,
        "d_model": sizes["dim"],
        "embedding_dropout": 0.0,
        "embedding_size": sizes["rows"],
        "eos_token_id": BOS,
        "flash_attention": False,
        "include_bias": False,
        "include_qkv_bias": False,
        "init_std": 0.02,
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "mask_token_id": sizes["mask_id"],
        "max_sequence_length": sizes["context"],
        "mlp_hidden_size": sizes["hidden"],
        "mlp_ratio": 4,
        "model_type": "llada",
        "multi_query_attention": None,
        "n_heads": sizes["heads"],
        "n_kv_heads": sizes["heads"],
        "n_layers": sizes["layers"],
        "pad_token_id": BOS,
        "residual_dropout": 0.0,
        "rms_norm_eps": EPS,
        "rope": True,
        "rope_full_precision": True,
        "rope_theta": ROPE_THETA,
        "scale_logits": False,
        "torch_dtype": "float16",
        "use_cache": False,
        "vocab_size": sizes["rows"],
        "weight_tying": True,
    }


def save(model, out):
    """Write config.json and model.safetensors (f16); the tied head is not stored."""
    state, tensors = model.state_dict(), {}
    for name, value in state.items():
        name = "model.transformer." + name
        if name.endswith("qkv.weight"):
            parts = zip(("q_proj", "k_proj", "v_proj"), value.chunk(3))
            tensors |= {name.replace("qkv", part): piece for part, piece in parts}
        elif name.endswith("gate_up.weight"):
            parts = zip(("ff_proj", "up_proj"), value.chunk(2))
            tensors |= {name.replace("gate_up", part): piece for part, piece in parts}
        else:
            tensors[name] = value
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    save_file({n: v.half().contiguous() for n, v in tensors.items()}, out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(config_json(model.sizes), indent=2) + "\n")


def load(directory):
    directory = Path(directory)
    config = json.loads((directory / "config.json").read_text())
    model = Denoiser(
        config["d_model"], config["mlp_hidden_size"], config["n_layers"], config["n_heads"],
        config["embedding_size"], config["mask_token_id"], config["max_sequence_length"],
    )
    stored = load_file(directory / "model.safetensors")
    stored = {name.removeprefix("model.transformer."): value.float() for name, value in stored.items()}
    for i in range(config["n_layers"]):
        take = lambda *names: torch.cat([stored.pop(f"blocks.{i}.{name}.weight") for name in names])
        stored[f"blocks.{i}.qkv.weight"] = take("q_proj", "k_proj", "v_proj")
        stored[f"blocks.{i}.gate_up.weight"] = take("ff_proj", "up_proj")
    model.load_state_dict(stored)
    return model.eval()
