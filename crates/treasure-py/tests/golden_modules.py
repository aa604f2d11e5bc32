"""The golden checkpoints as torch modules, called as their families are."""

import json

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


class Dream(torch.nn.Module):
    """Qwen2's layers, seen both ways, called as Dream is."""

    def __init__(self, directory, config):
        super().__init__()
        self.config = type("Config", (), config)
        self.weights = load_file(directory / "model.safetensors")

    def forward(self, input_ids, attention_mask="full", position_ids=None):
        w, config = self.weights, self.config
        x = w["model.embed_tokens.weight"][input_ids]
        batch, length, width = x.shape
        heads, few, head = config.num_attention_heads, config.num_key_value_heads, width // config.num_attention_heads
        places = torch.arange(length).expand(batch, -1) if position_ids is None else position_ids
        angles = places[..., None].float() * config.rope_theta ** (-torch.arange(0, head, 2).float() / head)
        cos, sin = (torch.cat([f(angles), f(angles)], -1)[:, None] for f in (torch.cos, torch.sin))
        turn = lambda y: y * cos + torch.cat([-y.chunk(2, -1)[1], y.chunk(2, -1)[0]], -1) * sin
        norm = lambda y, name: y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps) * w[name]
        seen = None if isinstance(attention_mask, str) else attention_mask
        for i in range(config.num_hidden_layers):
            p = f"model.layers.{i}."
            y = norm(x, p + "input_layernorm.weight")
            q, k, v = (F.linear(y, w[f"{p}self_attn.{n}_proj.weight"], w[f"{p}self_attn.{n}_proj.bias"]) for n in "qkv")
            q = turn(q.view(batch, length, heads, head).transpose(1, 2))
            k = turn(k.view(batch, length, few, head).transpose(1, 2)).repeat_interleave(heads // few, 1)
            v = v.view(batch, length, few, head).transpose(1, 2).repeat_interleave(heads // few, 1)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(batch, length, width)
            x = x + F.linear(y, w[p + "self_attn.o_proj.weight"])
            y = norm(x, p + "post_attention_layernorm.weight")
            y = F.silu(F.linear(y, w[p + "mlp.gate_proj.weight"])) * F.linear(y, w[p + "mlp.up_proj.weight"])
            x = x + F.linear(y, w[p + "mlp.down_proj.weight"])
        return type("Output", (), {"logits": F.linear(norm(x, "model.norm.weight"), w["lm_head.weight"])})


class Mdlm(torch.nn.Module):
    """bench/search's DiT, called as mdlm's published class is: each row at its own noise level."""

    def __init__(self, directory, config):
        import networks

        super().__init__()
        self.config = type("Config", (), config)
        self.inner = networks.Dit(directory)

    def forward(self, input_ids, timesteps=None):
        assert timesteps.shape == input_ids.shape[:1] and bool(timesteps.any()) == self.config.time_conditioning
        return torch.cat([self.row(ids[None], sigma) for ids, sigma in zip(input_ids, timesteps)])

    def row(self, ids, sigma):
        angles = sigma * 10000.0 ** (-torch.arange(128).float() / 128)
        self.inner.condition = self.inner.embed_time(torch.cat([angles.cos(), angles.sin()]))
        return self.inner(ids)


def diffugpt(directory, config):
    transformers = __import__("pytest").importorskip("transformers")
    keys = {"vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "activation_function", "layer_norm_epsilon"}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**{key: config[key] for key in keys}))
    weights = load_file(directory / "model.safetensors")
    own = {"transformer.wte.weight": weights.pop("embed_tokens.weight")}
    own.update({name.replace("denoise_model.", "transformer."): tensor for name, tensor in weights.items()})
    missing, unexpected = model.load_state_dict(own, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    model.config.bos_token_id = model.config.eos_token_id = config["bos_token_id"]
    return model


def from_transformers(directory, config):
    transformers = __import__("pytest").importorskip("transformers")
    return transformers.AutoModelForMaskedLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="sdpa")


def build(directory, family):
    """A module, its vocabulary, and the ids that its directory says."""
    import networks

    config = json.loads((directory / "config.json").read_text())
    mask_id = json.loads((directory / "meta.json").read_text())["mask_id"]
    llada = lambda directory, config: networks.Llada(directory)
    make = {"dream": Dream, "mdlm": Mdlm, "mdlm_sigma": Mdlm, "diffugpt": diffugpt, "llada": llada, "llada_gqa": llada}
    module = make.get(family, from_transformers)(directory, config)
    return module, config["vocab_size"], mask_id, config.get("bos_token_id"), config.get("eos_token_id")
