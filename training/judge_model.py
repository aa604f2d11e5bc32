"""Judge networks: MiniLM with fewer layers and pieces, or a small DistilBERT; saving and loading directories."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import (BertConfig, BertForSequenceClassification, DistilBertConfig,
                          DistilBertForSequenceClassification)

import judge_tokenizer

CONTEXT = 256


def label_maps(labels):
    return dict(id2label=dict(enumerate(labels)), label2id={label: i for i, label in enumerate(labels)})


def from_minilm(source, kept, layers, labels):
    """The first `layers` blocks and the kept embedding rows of MiniLM; pooler and head are new."""
    stored = load_file(Path(source) / "model.safetensors")
    stored = {name.removeprefix("bert."): value for name, value in stored.items()}
    config = BertConfig(
        vocab_size=len(kept), hidden_size=384, num_hidden_layers=layers, num_attention_heads=12,
        intermediate_size=1536, max_position_embeddings=CONTEXT, pad_token_id=0, classifier_dropout=0.1,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **label_maps(labels))  # dropout is slow on a CPU
    model = BertForSequenceClassification(config)
    state = model.state_dict()
    for name in state:
        key = name.removeprefix("bert.")
        if name.startswith("bert.") and key in stored and "pooler" not in key:
            value = stored[key]
            if key == "embeddings.word_embeddings.weight":
                value = value[kept]
            if key == "embeddings.position_embeddings.weight":
                value = value[:CONTEXT]
            state[name] = value.clone()
    model.load_state_dict(state)
    return model


def small_distilbert(source, kept, layers, width, labels):
    """From scratch, but for the embeddings: MiniLM's, projected on their `width` principal axes."""
    words = load_file(Path(source) / "model.safetensors")["embeddings.word_embeddings.weight"][kept].float()
    config = DistilBertConfig(
        vocab_size=len(kept), dim=width, hidden_dim=4 * width, n_layers=layers, n_heads=width // 32,
        max_position_embeddings=CONTEXT, pad_token_id=0, seq_classif_dropout=0.1, dropout=0.0,
        attention_dropout=0.0, **label_maps(labels))
    model = DistilBertForSequenceClassification(config)
    centred = words - words.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=False)[2][:width]
    projected = centred @ axes.T
    with torch.no_grad():
        model.distilbert.embeddings.word_embeddings.weight.copy_(projected * 0.05 / projected.std())
    return model


def save(model, tokenizer_json, out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.half().contiguous() for name, value in model.state_dict().items() if value.is_floating_point()}
    save_file(tensors, out / "model.safetensors", {"format": "pt"})
    config = model.config.to_dict()
    config = {key: value for key, value in config.items() if not key.startswith("_") and key != "dtype" and value is not None}
    config |= {"architectures": [type(model).__name__], "torch_dtype": "float16", "position_embedding_type": "absolute"}
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (out / "tokenizer.json").write_text(json.dumps(tokenizer_json, ensure_ascii=False), encoding="utf-8")
    (out / "tokenizer_config.json").write_text(json.dumps(judge_tokenizer.config(CONTEXT), indent=2) + "\n")


def load(directory):
    """The model in float32 from its f16 file, with its tokenizer."""
    config = json.loads((Path(directory) / "config.json").read_text())
    kind = {"bert": BertForSequenceClassification, "distilbert": DistilBertForSequenceClassification}[config["model_type"]]
    model = kind.from_pretrained(directory, dtype=torch.float32).eval()
    return model, Tokenizer.from_file(f"{directory}/tokenizer.json")


def batches(encoded, tokens=2048):
    """Index lists of similar length, at most `tokens` padded tokens each."""
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
    group = []
    for index in order:
        if group and (len(group) + 1) * len(encoded[index]) > tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def pad(rows):
    length = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    return ids, (torch.arange(length) < torch.tensor([len(row) for row in rows])[:, None]).long()


def encode(tokenizer, texts, limit):
    """Token ids, cut at `limit` with the closing separator kept."""
    return [e.ids if len(e.ids) <= limit else e.ids[: limit - 1] + e.ids[-1:] for e in tokenizer.encode_batch(list(texts))]


@torch.no_grad()
def logits(model, tokenizer, texts, limit=CONTEXT):
    model.eval()
    encoded = encode(tokenizer, texts, limit)
    out = torch.zeros(len(encoded), model.config.num_labels)
    for group in batches(encoded, 8192):
        ids, mask = pad([encoded[i] for i in group])
        out[group] = model(input_ids=ids, attention_mask=mask).logits.float()
    return out
