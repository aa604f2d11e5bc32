"""Cut the story vocabulary and write the tokenizer files the denoiser and the scorer share.

    python vocabulary.py --story-model ../models/llama2.data --data ../shared/data --out ../runs/vocab
"""

import argparse
import json
from pathlib import Path

import numpy as np

import stories
import story_model
from story_model import BOS, FIRST_BYTE, LAST_BYTE, SPACE

UNK, BOS_TOKEN, MASK_TOKEN = "<unk>", "<s>", "<mask>"


def used_ids(story, texts):
    """Every id the texts use or pass through while merging, with ASCII, bytes and specials."""
    encoder = story_model.ReferenceEncoder(story.pieces, story.scores)
    # No piece continues past a space, so the distinct words (and runs of spaces) are enough.
    words = {word for text in texts for word in text.split(" ")} | {" ", "  ", "   "}
    trace = set()
    for word in words:
        encoder.encode(word, trace)
    ids = set(range(LAST_BYTE + 1)) | {encoder.id_of[piece] for piece in trace}
    ids |= {encoder.id_of[chr(code)] for code in range(33, 127)} | {encoder.id_of[SPACE]}
    return sorted(ids)


def merges(pieces, scores):
    """All pairs of kept pieces whose concatenation is kept, best score first."""
    known = {piece: index for index, piece in enumerate(pieces) if index > LAST_BYTE}
    pairs = []
    for piece, index in known.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in known and right in known:
                pairs.append((-scores[index], known[left], known[right], left, right))
    return [[left, right] for *_, left, right in sorted(pairs)]


def tokenizer_json(pieces, scores, mask_id=None):
    special = [(0, UNK), (BOS, BOS_TOKEN), (2, "</s>")]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    if mask_id is not None:
        special.append((mask_id, MASK_TOKEN))
        vocab[MASK_TOKEN] = mask_id
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, "content": content, **flags} for index, content in special],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": SPACE},
                {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": BOS_TOKEN, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [
                {"SpecialToken": {"id": BOS_TOKEN, "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": BOS_TOKEN, "type_id": 1}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {BOS_TOKEN: {"id": BOS_TOKEN, "ids": [BOS], "tokens": [BOS_TOKEN]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": UNK,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges(pieces, scores),
        },
    }


TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": BOS_TOKEN,
    "eos_token": BOS_TOKEN,
    "pad_token": BOS_TOKEN,
    "unk_token": UNK,
    "mask_token": MASK_TOKEN,
    "add_bos_token": True,
    "add_eos_token": False,
    "clean_up_tokenization_spaces": False,
    "model_max_length": 256,
}


def write_tokenizer(out, tokenizer):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    (out / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--story-model", default="../models/llama2.data")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--out", default="../runs/vocab")
    args = parser.parse_args()
    story = story_model.load(args.story_model)
    kept, held = stories.split(stories.read(args.data))
    texts = [text for text, _ in kept + held] + stories.prompts(args.data)
    ids = used_ids(story, texts)
    pieces = [story.pieces[index] for index in ids]
    scores = [story.scores[index] for index in ids]
    write_tokenizer(args.out, tokenizer_json(pieces, scores, mask_id=len(ids)))
    np.save(Path(args.out) / "kept_ids.npy", np.array(ids, dtype=np.int64))
    print(f"kept {len(ids)} of {story.vocab} ids; mask id {len(ids)}; rows {len(ids) + 1}")


if __name__ == "__main__":
    main()
