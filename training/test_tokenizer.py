"""Check the tokenizers' claims: the scorer's against the full story tokenizer, the denoiser's against the scorer's.

    python test_tokenizer.py --pocket ../assets/pocket --kept ../runs/vocab/kept_ids.npy

Without the story model (`--kept` is not there) the first comparison is left out and said so.
"""

import argparse
import random
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import stories
import story_model
import words


def as_before(old, new, text):
    """Ids of `text` by `new`, with every word that has a token of its own taken apart into the pieces it had."""
    first_new, ids = old.token_to_id("<mask>"), []
    for index in new.encode(text, add_special_tokens=False).ids:
        word = new.id_to_token(index).replace(story_model.SPACE, " ")
        parts = words.pieces(old, word) if index >= first_new else [None]
        ids += [index] if parts == [None] else [old.token_to_id(part) for part in parts]
    return ids


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pocket", default="../assets/pocket")
    parser.add_argument("--story-model", default="../models/llama2.data")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--kept", default="../runs/vocab/kept_ids.npy")
    args = parser.parse_args()
    old = Tokenizer.from_file(f"{args.pocket}/scorer/tokenizer.json")
    tokenizer = Tokenizer.from_file(f"{args.pocket}/denoiser/tokenizer.json")
    held = [text for text, _ in stories.split(stories.read(args.data))[1]]

    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    if Path(args.kept).exists():
        kept = np.load(args.kept)
        story = story_model.load(args.story_model)
        reference = story_model.ReferenceEncoder(story.pieces, story.scores)
        encoded = (old.encode(text, add_special_tokens=False).ids for text in held)
        equal = sum([int(kept[i]) for i in row] == reference.encode(text) for row, text in zip(encoded, held))
        print(f"held-out stories encoded as by the full tokenizer: {equal} of {len(held)}")
        assert equal == len(held)
    else:
        print(f"{args.kept}: not there, so not compared with the full tokenizer")
    equal = sum(as_before(old, tokenizer, text) == old.encode(text, add_special_tokens=False).ids for text in held)
    print(f"held-out stories encoded as before but for whole words: {equal} of {len(held)}")

    generator = random.Random(7)
    alphabet = [chr(code) for code in range(32, 127)] + ["\n", " ", " "]
    texts = stories.prompts(args.data) + held
    texts += ["", " ", "  a", "\n", " \n ", "a  b   c    d ", "h\u00e9llo \u20ac \U0001f600"]
    texts += ["".join(generator.choices(alphabet, k=generator.randint(1, 60))) for _ in range(5000)]
    back = [tokenizer.decode(ids(text)) == text for text in texts]
    print(f"decode(encode(t)) == t: {sum(back)} of {len(texts)}")
    assert equal == len(held) and all(back), [t for t, ok in zip(texts, back) if not ok][:5]


if __name__ == "__main__":
    main()
