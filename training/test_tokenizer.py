"""Check the tokenizer's claims against the full story tokenizer.

    python test_tokenizer.py --dir ../assets/pocket/denoiser --kept ../runs/vocab/kept_ids.npy
"""

import argparse
import random

import numpy as np
from tokenizers import Tokenizer

import stories
import story_model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", default="../assets/pocket/denoiser")
    parser.add_argument("--story-model", default="../models/llama2.data")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--kept", default="../runs/vocab/kept_ids.npy")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(f"{args.dir}/tokenizer.json")
    kept = np.load(args.kept)
    story = story_model.load(args.story_model)
    reference = story_model.ReferenceEncoder(story.pieces, story.scores)
    _, held = stories.split(stories.read(args.data))

    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    equal = sum([int(kept[i]) for i in ids(text)] == reference.encode(text) for text, _ in held)
    print(f"held-out stories encoded as by the full tokenizer: {equal} of {len(held)}")

    generator = random.Random(7)
    alphabet = [chr(code) for code in range(32, 127)] + ["\n", " ", " "]
    texts = stories.prompts(args.data) + [text for text, _ in held]
    texts += ["", " ", "  a", "\n", " \n ", "a  b   c    d ", "h\u00e9llo \u20ac \U0001f600"]
    texts += ["".join(generator.choices(alphabet, k=generator.randint(1, 60))) for _ in range(5000)]
    back = [tokenizer.decode(ids(text)) == text for text in texts]
    print(f"decode(encode(t)) == t: {sum(back)} of {len(texts)}")
    assert equal == len(held) and all(back), [t for t, ok in zip(texts, back) if not ok][:5]


if __name__ == "__main__":
    main()
