"""Plain PyTorch networks for the race: what a competent person writes, with fused attention and nothing cached."""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn


# What PyTorch computes in: everything as `.to(DTYPE)` makes it.
DTYPE = torch.float32


def rotary(length, width, theta):
    angles = torch.outer(torch.arange(length).float(), theta ** (-torch.arange(0, width, 2).float() / width))
    angles = torch.cat([angles, angles], -1)
    return angles.cos().to(DTYPE), angles.sin().to(DTYPE)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Llada(nn.Module):
    """A LLaDA-layout denoiser: token ids with masks to logits at every position."""

    def __init__(self, directory):
        super().__init__()
        config = json.loads((Path(directory) / "config.json").read_text())
        files = sorted(Path(directory).glob("model*.safetensors"))
        raw = {name: tensor for file in files for name, tensor in load_file(file).items()}
        self.weights = {name.removeprefix("model.transformer."): tensor.to(DTYPE) for name, tensor in raw.items()}
        self.layers, self.heads = config["n_layers"], config["n_heads"]
        self.kv_heads = config.get("n_kv_heads") or self.heads
        self.eps, self.theta = config["rms_norm_eps"], config["rope_theta"]
        self.mask_id = config["mask_token_id"]

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weights[name]

    def forward(self, ids):
        w = self.weights
        x = w["wte.weight"][ids]
        batch, length, width = x.shape
        head = width // self.heads
        cos, sin = rotary(length, head, self.theta)
        split = lambda y, heads: y.view(batch, length, heads, head).transpose(1, 2)
        for i in range(self.layers):
            p = f"blocks.{i}."
            y = self.norm(x, p + "attn_norm.weight")
            q = rotate(split(y @ w[p + "q_proj.weight"].T, self.heads), cos, sin)
            k = rotate(split(y @ w[p + "k_proj.weight"].T, self.kv_heads), cos, sin)
            v = split(y @ w[p + "v_proj.weight"].T, self.kv_heads)
            if self.kv_heads != self.heads:
                k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
            x = x + y @ w[p + "attn_out.weight"].T
            y = self.norm(x, p + "ff_norm.weight")
            y = F.silu(y @ w[p + "ff_proj.weight"].T) * (y @ w[p + "up_proj.weight"].T)
            x = x + y @ w[p + "ff_out.weight"].T
        x = self.norm(x, "ln_f.weight")
        return x @ w.get("ff_out.weight", w["wte.weight"]).T


class Dit(nn.Module):
    """An MDLM DiT (mdlm-owt's sizes by default) with its constant conditioning applied as published."""

    def __init__(self, directory):
        super().__init__()
        config = json.loads((Path(directory) / "config.json").read_text())
        raw = load_file(Path(directory) / "model.safetensors")
        self.weights = {name.removeprefix("backbone."): tensor.to(DTYPE) for name, tensor in raw.items()}
        self.layers, self.heads = config["n_blocks"], config["n_heads"]
        self.mask_id = config["vocab_size"] - 1
        self.condition = self.embed_time(torch.cat([torch.ones(128), torch.zeros(128)]).to(DTYPE))  # the sinusoid of sigma = 0

    def embed_time(self, x):
        w = self.weights
        x = F.silu(F.linear(x, w["sigma_map.mlp.0.weight"], w["sigma_map.mlp.0.bias"]))
        return F.silu(F.linear(x, w["sigma_map.mlp.2.weight"], w["sigma_map.mlp.2.bias"]))

    def modulation(self, name, parts):
        w = self.weights
        return F.linear(self.condition, w[name + ".weight"], w[name + ".bias"]).chunk(parts)

    def forward(self, ids):
        w = self.weights
        x = w["vocab_embed.embedding"][ids]
        batch, length, width = x.shape
        head = width // self.heads
        cos, sin = rotary(length, head, 10000.0)
        norm = lambda y, name: F.layer_norm(y, (width,), w[name])
        for i in range(self.layers):
            p = f"blocks.{i}."
            shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(p + "adaLN_modulation", 6)
            y = norm(x, p + "norm1.weight") * (1 + scale1) + shift1
            q, k, v = (y @ w[p + "attn_qkv.weight"].T).view(batch, length, 3, self.heads, head).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
            x = x + gate1 * (y.transpose(1, 2).reshape(batch, length, width) @ w[p + "attn_out.weight"].T)
            y = norm(x, p + "norm2.weight") * (1 + scale2) + shift2
            y = F.gelu(F.linear(y, w[p + "mlp.0.weight"], w[p + "mlp.0.bias"]), approximate="tanh")
            x = x + gate2 * F.linear(y, w[p + "mlp.2.weight"], w[p + "mlp.2.bias"])
        shift, scale = self.modulation("output_layer.adaLN_modulation", 2)
        y = norm(x, "output_layer.norm_final.weight") * (1 + scale) + shift
        return F.linear(y, w["output_layer.linear.weight"], w["output_layer.linear.bias"])


class ClassifierReward:
    """log p of a label under a sequence classifier from transformers."""

    def __init__(self, directory, label):
        from transformers import AutoModelForSequenceClassification

        self.model = AutoModelForSequenceClassification.from_pretrained(directory, torch_dtype=DTYPE).eval()
        self.tokenizer = Tokenizer.from_file(str(Path(directory) / "tokenizer.json"))
        pad = self.model.config.pad_token_id or 0
        self.tokenizer.enable_padding(pad_id=pad)
        self.tokenizer.enable_truncation(min(512, self.model.config.max_position_embeddings - 2))
        names = {name.lower(): index for index, name in self.model.config.id2label.items()}
        self.label = int(label) if label.isdigit() else names[label.lower()]

    def score(self, texts):
        batch = self.tokenizer.encode_batch(texts)
        ids = torch.tensor([row.ids for row in batch])
        mask = torch.tensor([row.attention_mask for row in batch])
        logits = self.model(input_ids=ids, attention_mask=mask).logits.float()
        return logits.log_softmax(-1)[:, self.label].tolist()


class PerplexityReward:
    """Minus the mean negative log-likelihood of an autoregressive model, in nats per token."""

    def __init__(self, directory):
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(directory, torch_dtype=DTYPE).eval()
        self.tokenizer = Tokenizer.from_file(str(Path(directory) / "tokenizer.json"))
        self.tokenizer.enable_padding(pad_id=0)

    def score(self, texts):
        batch = self.tokenizer.encode_batch(texts)  # begins with BOS
        ids = torch.tensor([row.ids for row in batch])
        mask = torch.tensor([row.attention_mask for row in batch])
        logits = self.model(input_ids=ids, attention_mask=mask).logits.float()
        nll = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
        kept = mask[:, 1:].float()
        return (-(nll * kept).sum(1) / kept.sum(1)).tolist()
