"""Generator mistakes: the ways a half-trained or over-optimised generator spoils a text."""

import os
import random

import torch


def repeat_word(words, rng):
    """One word, or a short phrase, said over and over."""
    size = rng.choice([1, 1, 2, 3])
    start = rng.randrange(max(1, len(words) - size))
    return words[start : start + size] * rng.randint(3, max(4, len(words) // size))


def stutter(words, rng):
    """Some words doubled or tripled in place."""
    share = rng.uniform(0.08, 0.35)
    out = []
    for word in words:
        out += [word] * (rng.choice([2, 2, 3]) if rng.random() < share else 1)
    return out


def shuffle_all(words, rng):
    return rng.sample(words, len(words))


def shuffle_near(words, rng):
    """Words moved by a few places."""
    reach = rng.uniform(1.5, 4)
    return [word for _, word in sorted((index + rng.uniform(0, reach), word) for index, word in enumerate(words))]


def drop(words, rng):
    share = rng.uniform(0.12, 0.4)
    return [word for word in words if rng.random() > share]


def swap_foreign(words, rng, others):
    """Some words replaced by words of another text."""
    share = rng.uniform(0.12, 0.4)
    return [rng.choice(others) if others and rng.random() < share else word for word in words]


def repeat_span(words, rng):
    """A clause that loops."""
    size = rng.randint(3, 8)
    start = rng.randrange(max(1, len(words) - size))
    span = words[start : start + size]
    return words[:start] + span * rng.randint(2, 4) + words[start + size :]


def trail(words, rng):
    """A text that runs out into full stops or one small word, as an over-optimised search likes to end."""
    kept = words[: rng.randint(2, max(3, len(words)))]
    mark = rng.choice(["."] * 4 + ["...", "!", ",", "the", "and", kept[-1]])
    if mark.isalpha():
        return kept + [mark] * rng.randint(3, 12)
    tail = (mark if rng.random() < 0.5 else f" {mark}") * rng.randint(4, 24)
    return kept[:-1] + [kept[-1] + tail]


def slip(text, rng):
    """One small mistake, as a speaker or a careless generator makes it: a word doubled, dropped, moved or bent."""
    words = text.split()
    at = rng.randrange(len(words))
    word = words[at]
    kind = rng.randrange(5)
    if kind == 0:
        words.insert(at, word)
    elif kind == 1 and len(words) > 3:
        del words[at]
    elif kind == 2 and len(words) > 2:
        words.insert(rng.randrange(len(words) - 1), words.pop(at))
    elif kind == 3:
        forms = {"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has", "a": "an", "an": "a",
                 "he": "him", "she": "her", "they": "them", "does": "do", "do": "does", "his": "he", "their": "them"}
        found = [i for i, w in enumerate(words) if w.lower() in forms]
        if found:
            i = rng.choice(found)
            words[i] = forms[words[i].lower()]
    else:
        ending = next((e for e in ("ing", "ed", "s") if word.endswith(e) and len(word) > len(e) + 2), "")
        words[at] = word[: len(word) - len(ending)] + rng.choice([e for e in ("", "s", "ed", "ing") if e != ending])
    return " ".join(words)


def corrupt(text, rng, other_text=""):
    """A random mistake; the result always differs from the text."""
    words = text.split()
    for _ in range(8):
        kind = rng.choice([stutter, stutter, shuffle_all, shuffle_near, shuffle_near, drop, drop, swap_foreign,
                           swap_foreign, repeat_word, repeat_span, trail, trail])
        done = kind(words, rng, other_text.split()) if kind is swap_foreign else kind(words, rng)
        if len(done) > 1 and done != words:
            return " ".join(done[: 2 * len(words) + 8])
    return " ".join(words + words)


def degenerate(text, rng):
    """Text that means nothing any more: a word said over and over, or a full shuffle of a repeated text."""
    words = text.split()
    if rng.random() < 0.1:
        return " ".join(trail(words[:4], rng))
    if rng.random() < 0.65:
        return " ".join(repeat_word(words, rng)[:60])
    return " ".join(shuffle_all(stutter(words, rng), rng)[:60])


@torch.no_grad()
def half_denoised(model, tokenizer, texts, rng, shares=(0.4, 0.95), lengths=(24, 112)):
    """Hide a share of each text and fill all holes at once with the model's first choice or a draw."""
    out = []
    for start in range(0, len(texts), 16):
        length = rng.randint(*lengths)
        rows = [tokenizer.encode(text).ids for text in texts[start : start + 16]]
        rows = [(row + [1] * length)[:length] for row in rows]
        ids = torch.tensor(rows)
        share = torch.tensor([rng.uniform(*shares) for _ in rows])[:, None]
        hidden = torch.rand(ids.shape) < share
        hidden[:, 0] = False
        logits = model(ids.masked_fill(hidden, model.mask_id))
        logits[..., [1, model.mask_id]] = -torch.inf
        if rng.random() < 0.5:
            fill = logits.argmax(-1)
        else:
            fill = torch.multinomial(logits.softmax(-1).flatten(0, 1), 1).view(ids.shape)
        done = torch.where(hidden & (ids != 1), fill, ids)
        out += [tokenizer.decode(row.tolist()) for row in done]
    return out


def main():
    """Write half-denoised versions of training and held-out stories, one JSON row each."""
    import argparse
    import json

    from tokenizers import Tokenizer

    import llada
    import stories

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--denoiser", default="../runs/early/denoiser", help="an early checkpoint makes the right mistakes")
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--out", default="../runs/half-denoised.jsonl")
    parser.add_argument("--count", type=int, default=6000)
    args = parser.parse_args()
    torch.manual_seed(5)
    rng = random.Random(5)
    model, tokenizer = llada.load(args.denoiser), Tokenizer.from_file(f"{args.denoiser}/tokenizer.json")
    kept, held = stories.split(stories.read(args.data))
    with open(f"{args.out}.part", "w", encoding="utf-8") as out:
        for split, rows in (("train", rng.sample(kept, args.count)), ("held", held)):
            texts = [text for text, _ in rows]
            for text in half_denoised(model, tokenizer, texts, rng):
                out.write(json.dumps({"split": split, "text": text}, ensure_ascii=False) + "\n")
    os.replace(f"{args.out}.part", args.out)


if __name__ == "__main__":
    main()
