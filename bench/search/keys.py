"""The product's random keys (crates/treasure-core/src/key.rs and crates/treasure/src/key.rs) in Python, so that both sides
draw alike."""

import hashlib

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
TREE, POSITION = 0x01, 0x12  # crates/treasure-core/src/propose.rs, `purpose`


def mix(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


class Key:
    """A node in a tree of random streams."""

    def __init__(self, word):
        self.word = word

    @staticmethod
    def of_seed(seed):
        return Key(mix((seed + GOLDEN) & WORD))

    def fold(self, tag):
        rotated = ((self.word << 23) | (self.word >> 41)) & WORD
        return Key(mix(rotated ^ ((mix((tag + GOLDEN) & WORD) + GOLDEN) & WORD)))

    def fold_seq(self, slots):
        """`slots` holds token ids, None for a mask."""
        key = self.fold(len(slots))
        for slot in slots:
            key = key.fold(WORD if slot is None else slot)
        return key

    def below(self, n):
        return (mix((self.word + GOLDEN) & WORD) * n) >> 64


def start_key(text):
    """The number a prompt stands for: samples of different prompts share no randomness."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def sample_path(start, sample=0):
    """What a seed's key is folded with for a sample of a prompt."""
    return [start_key(start), sample]


def branch_position(sample, slots):
    """Which mask of a state the search reveals (Alg. 1, line 4)."""
    masked = [i for i, slot in enumerate(slots) if slot is None]
    key = sample.fold(TREE).fold(len(masked)).fold_seq(slots)
    return masked[key.fold(POSITION).fold(0).below(len(masked))]
