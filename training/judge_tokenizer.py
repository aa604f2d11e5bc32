"""Cut a WordPiece vocabulary to the pieces that matter, never losing a character."""

import json
from collections import Counter

from tokenizers import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def cut_vocabulary(tokenizer_json, texts, size):
    """Ids of the source vocabulary to keep, in the order of the new one."""
    vocab = tokenizer_json["model"]["vocab"]
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    counts = Counter()
    for start in range(0, len(texts), 1000):
        for encoded in tokenizer.encode_batch(texts[start : start + 1000], add_special_tokens=False):
            counts.update(encoded.ids)
    always = [vocab[token] for token in SPECIAL]
    for piece, index in vocab.items():
        body = piece.removeprefix("##")
        if len(body) == 1 and body.isascii():
            always.append(index)
    ranked = [index for index, _ in counts.most_common() if index not in set(always)]
    return (always + ranked)[:size]


def cut_tokenizer(tokenizer_json, kept):
    """The tokenizer with the kept pieces renumbered from 0."""
    piece_of = {index: piece for piece, index in tokenizer_json["model"]["vocab"].items()}
    out = json.loads(json.dumps(tokenizer_json))
    new_id = {piece_of[old]: new for new, old in enumerate(kept)}
    out["model"]["vocab"] = new_id
    out["truncation"] = out["padding"] = None
    out["added_tokens"] = [
        {"id": new_id[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True} for token in SPECIAL
    ]
    out["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [new_id[token]], "tokens": [token]} for token in ("[CLS]", "[SEP]")},
    }
    return out


def config(length):
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "do_lower_case": True,
        "model_max_length": length,
        "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
    }
