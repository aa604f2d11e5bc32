"""Random models of published sizes for the race: mdlm-owt's DiT and a RoBERTa-base classifier, each with a tokenizer.

The tokenizers are byte-level BPE with made-up merges (letters, pairs, triples, with and without a space before them),
so that any text that the denoiser writes can be read by the judge. Nothing is downloaded.
"""

import json
import string
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

LAYERS, WIDTH, HEADS, INNER, CONDITION = 12, 768, 12, 3072, 128


def pieces(count):
    """Byte tokens, then merges until there are `count` tokens."""
    vocabulary = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = []
    layer = list(string.ascii_lowercase) + ["Ġ"]
    while True:
        following = []
        for left in layer:
            for letter in string.ascii_lowercase:
                if len(vocabulary) == count:
                    return vocabulary, merges
                vocabulary.append(left + letter)
                merges.append((left, letter))
                following.append(left + letter)
        layer = following


def tokenizer(size, specials, wrap):
    ordinary, merges = pieces(size - len(specials))
    names = (specials + ordinary) if wrap else (ordinary + specials)
    bpe = Tokenizer(models.BPE({name: index for index, name in enumerate(names)}, merges))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens([AddedToken(name, special=True) for name in specials])
    if wrap:
        first, last = specials[0], specials[2]
        bpe.post_processor = processors.RobertaProcessing(
            (last, names.index(last)), (first, names.index(first)), trim_offsets=False, add_prefix_space=False
        )
    return bpe


def matrix(rows, columns):
    return torch.randn(rows, columns) * (0.7 / columns**0.5)


def vector(size, mean=0.0):
    return mean + 0.1 * torch.randn(size)


def write_dit(directory, layers=LAYERS, vocabulary=50258):
    directory.mkdir(parents=True)
    t = {"vocab_embed.embedding": torch.randn(vocabulary, WIDTH)}

    def linear(name, rows, columns, bias=True):
        t[name + ".weight"] = matrix(rows, columns)
        if bias:
            t[name + ".bias"] = vector(rows)

    linear("sigma_map.mlp.0", CONDITION, 256)
    linear("sigma_map.mlp.2", CONDITION, CONDITION)
    for i in range(layers):
        block = f"blocks.{i}."
        t[block + "norm1.weight"], t[block + "norm2.weight"] = vector(WIDTH, 1), vector(WIDTH, 1)
        linear(block + "attn_qkv", 3 * WIDTH, WIDTH, bias=False)
        linear(block + "attn_out", WIDTH, WIDTH, bias=False)
        linear(block + "mlp.0", INNER, WIDTH)
        linear(block + "mlp.2", WIDTH, INNER)
        linear(block + "adaLN_modulation", 6 * WIDTH, CONDITION)
    t["output_layer.norm_final.weight"] = vector(WIDTH, 1)
    linear("output_layer.linear", vocabulary, WIDTH)
    linear("output_layer.adaLN_modulation", 2 * WIDTH, CONDITION)
    save_file({"backbone." + name: tensor for name, tensor in t.items()}, directory / "model.safetensors")
    config = dict(model_type="mdlm", hidden_dim=WIDTH, n_heads=HEADS, n_blocks=layers, cond_dim=CONDITION)
    config |= dict(vocab_size=vocabulary, model_length=1024, time_conditioning=False)
    (directory / "config.json").write_text(json.dumps(config))
    # As GPT-2's, without the mask: the last id of the model.
    tokenizer(vocabulary - 1, ["<|endoftext|>"], wrap=False).save(str(directory / "tokenizer.json"))


def write_roberta(directory, layers=LAYERS, vocabulary=50265):
    from transformers import RobertaConfig, RobertaForSequenceClassification

    config = RobertaConfig(
        vocab_size=vocabulary, hidden_size=WIDTH, num_hidden_layers=layers, num_attention_heads=HEADS,
        intermediate_size=INNER, max_position_embeddings=514, type_vocab_size=1, num_labels=3, initializer_range=0.05,
        id2label={0: "negative", 1: "neutral", 2: "positive"}, label2id={"negative": 0, "neutral": 1, "positive": 2},
    )
    RobertaForSequenceClassification(config).save_pretrained(directory)
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer(vocabulary, specials, wrap=True).save(str(directory / "tokenizer.json"))


def write(directory, layers=LAYERS):
    """Writes both models below a directory unless they are there; returns the two directories."""
    torch.manual_seed(1)
    directory = Path(directory)
    dit, roberta = directory / f"dit-{layers}", directory / f"roberta-{layers}"
    if not (dit / "tokenizer.json").exists():
        write_dit(dit, layers)
    if not (roberta / "tokenizer.json").exists():
        write_roberta(roberta, layers)
    return dit, roberta
