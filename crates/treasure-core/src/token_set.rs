//! A set of tokens, one bit each, made to be reused.

use crate::TokenId;

/// The numbers of the bits that are set, in increasing order.
pub fn bits(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let lowest = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some((index * 64) as u32 + lowest)
        })
    })
}

/// A set of token ids below a vocabulary's size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSet {
    words: Vec<u64>,
    size: usize,
}

impl TokenSet {
    /// No token of a vocabulary of `size` tokens.
    pub fn none(size: usize) -> Self {
        Self { words: vec![0; size.div_ceil(64)], size }
    }

    /// Every token of a vocabulary of `size` tokens.
    pub fn all(size: usize) -> Self {
        let mut set = Self::default();
        set.assign(std::iter::repeat_n(true, size));
        set
    }

    /// How many tokens the vocabulary has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Empties the set and gives it another size; the memory is kept.
    pub fn reset(&mut self, size: usize) {
        self.words.clear();
        self.words.resize(size.div_ceil(64), 0);
        self.size = size;
    }

    /// Makes it a set of as many tokens as there are items: those whose item is true.
    pub fn assign(&mut self, members: impl ExactSizeIterator<Item = bool>) {
        self.reset(members.len());
        let (mut word, mut held) = (0, 0);
        let mut words = self.words.iter_mut();
        for member in members {
            word |= u64::from(member) << (held % 64);
            held += 1;
            if held % 64 == 0
                && let Some(to) = words.next()
            {
                *to = std::mem::take(&mut word);
            }
        }
        if let Some(to) = words.next() {
            *to = word;
        }
    }

    /// Adds a token.
    ///
    /// # Panics
    /// If the token is not below the size.
    pub fn insert(&mut self, token: TokenId) {
        assert!((token as usize) < self.size, "token {token} of {}", self.size);
        self.words[token as usize / 64] |= 1 << (token % 64);
    }

    /// Takes a token out; a token that is not in it, or beyond the size, changes nothing.
    pub fn remove(&mut self, token: TokenId) {
        if let Some(word) = self.words.get_mut(token as usize / 64) {
            *word &= !(1 << (token % 64));
        }
    }

    /// Whether the token is in the set.
    pub fn contains(&self, token: TokenId) -> bool {
        let word = self.words.get(token as usize / 64).copied().unwrap_or(0);
        word >> (token % 64) & 1 == 1
    }

    /// The number of tokens in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no token is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The tokens, in increasing order.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ {
        bits(&self.words)
    }

    /// The set as words of 64 bits, the lowest token first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = TokenSet::none(130);
        for token in [0, 63, 64, 129] {
            set.insert(token);
        }
        set.remove(64);
        set.remove(9999);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 129]);
        assert_eq!((set.count(), set.contains(129), set.contains(64)), (3, true, false));
        assert!(!set.contains(100_000));
        assert_eq!(TokenSet::all(130).count(), 130);
        set.reset(3);
        assert!(set.is_empty() && set.size() == 3 && set.words() == [0]);
    }
}
