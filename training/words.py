"""Give the commonest words of several pieces a token each, so that a word is filled whole or not at all.

    python words.py --denoiser ../assets/pocket/denoiser --out ../runs/words --count 1000

A denoiser fills masks independently of each other; where a word has several pieces, two fillings that are each likely
make a word that is none. One word in nine of the stories had several pieces. New merges come after all old ones, so
texts without the new words keep their pieces; a new row starts at the mean of the rows of its pieces.
"""

import argparse
import collections
import json
import re
from pathlib import Path

import torch
from tokenizers import Tokenizer

import llada
import stories
from story_model import SPACE
from vocabulary import write_tokenizer

# A word, with the space before it if there is one: after a quotation mark or a new line there is none.
WORD = re.compile(r" ?[A-Za-z]+(?:'[a-z]+)?")
ROUNDS = 12


def common_words(tokenizer, texts, count):
    """The commonest words that take several pieces."""
    seen = collections.Counter(word for text in texts for word in WORD.findall(text))
    several = ((word, n) for word, n in seen.most_common() if len(pieces(tokenizer, word)) > 1)
    return [word for word, _ in (next(several) for _ in range(count))]


def pieces(tokenizer, word):
    """Pieces of a word as it stands in a text: the tokenizer puts a space before every text, a quotation mark takes it."""
    if word.startswith(" "):
        return tokenizer.encode(word[1:], add_special_tokens=False).tokens
    return tokenizer.encode('"' + word, add_special_tokens=False).tokens[1:]


def extend(description, words):
    """`description` of tokenizer.json with a token for each word: merges of its pieces from left to right.

    A new merge can change the pieces of another new word, so the words that are not whole yet are tried again.
    """
    vocab, merges = description["model"]["vocab"], description["model"]["merges"]
    mask = max(description["added_tokens"], key=lambda token: token["id"])
    del vocab[mask["content"]]
    added = []
    for _ in range(ROUNDS):
        tokenizer = Tokenizer.from_str(json.dumps(description))
        broken = [word for word in words if len(pieces(tokenizer, word)) > 1]
        if not broken:
            break
        for word in broken:
            left, *rest = pieces(tokenizer, word)
            for right in rest:
                if [left, right] not in merges[-len(added) - 1 :]:
                    merges.append([left, right])
                left += right
                if left not in vocab:
                    vocab[left] = len(vocab)
                    added.append(left)
        mask["id"] = len(vocab)
    vocab[mask["content"]] = mask["id"]
    return description, added


def grow(model, old, new):
    """The denoiser with a row for each token of `new`: the old rows where they were, means of pieces for the rest."""
    sizes = dict(model.sizes, rows=new.get_vocab_size(), mask_id=new.token_to_id("<mask>"))
    grown, state = llada.Denoiser(**sizes), model.state_dict()
    table, first_new = state["wte.weight"], model.mask_id
    rows = [table[:first_new]]
    for index in range(first_new, sizes["mask_id"]):
        parts = [old.token_to_id(piece) for piece in pieces(old, new.id_to_token(index).replace(SPACE, " "))]
        rows.append(table[parts].mean(0, keepdim=True))
    rows.append(table[model.mask_id :])
    grown.load_state_dict(dict(state, **{"wte.weight": torch.cat(rows)}))
    return grown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--denoiser", default="../assets/pocket/denoiser")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--out", default="../runs/words")
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    old = Tokenizer.from_file(f"{args.denoiser}/tokenizer.json")
    kept = stories.split(stories.read(args.data) + stories.read_more(args.data))[0]
    texts = [text for text, _ in kept]
    words = common_words(old, texts, args.count)
    description, added = extend(json.loads(Path(args.denoiser, "tokenizer.json").read_text()), words)
    write_tokenizer(args.out, description)
    new = Tokenizer.from_file(f"{args.out}/tokenizer.json")
    llada.save(grow(llada.load(args.denoiser), old, new), args.out)
    sample = texts[:: len(texts) // 2000]
    lengths = [sum(len(t.encode(text).ids) for text in sample) for t in (old, new)]
    whole = sum(len(pieces(new, word)) == 1 for word in words)
    print(f"{len(added)} new tokens, {whole} of {len(words)} words whole; {new.get_vocab_size()} rows; "
          f"{lengths[1] / lengths[0]:.4f} tokens for one before")


if __name__ == "__main__":
    main()
