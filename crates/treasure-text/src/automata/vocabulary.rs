//! A vocabulary as bytes per token, with the tokens that end a text and those that are never placed.
//!
//! Bytes are all that counts: a token that splits a character, or starts with a space, needs no case of
//! its own.

use treasure_core::TokenId;

use super::{Error, Result, trie::Trie};

/// The text of every token, and which tokens end a text.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Token `i` is `bytes[ends[i]..ends[i + 1]]`; nothing for tokens that are never placed.
    ends: Vec<u32>,
    eos: Vec<TokenId>,
    trie: Trie,
}

impl Vocabulary {
    /// A vocabulary of tokens with their bytes, and the ids that end a text (their bytes do not count).
    ///
    /// `None` and tokens without bytes are never legal: they would change nothing in the text.
    pub fn new(tokens: impl IntoIterator<Item = Option<Vec<u8>>>, eos: &[TokenId]) -> Result<Self> {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        let mut eos = eos.to_vec();
        eos.sort_unstable();
        eos.dedup();
        for (id, token) in tokens.into_iter().enumerate() {
            let text = token.filter(|_| eos.binary_search(&(id as TokenId)).is_err());
            bytes.extend(text.unwrap_or_default());
            // Ids and offsets are 32 bits wide; u32::MAX is the mask's.
            let end = u32::try_from(bytes.len()).ok().filter(|_| id < u32::MAX as usize);
            ends.push(end.ok_or_else(|| Error::Input {
                what: "vocabulary",
                expected: "at most 4 GiB of token text".to_owned(),
                got: format!("more, at token {id}"),
            })?);
        }
        let size = ends.len() - 1;
        if let Some(&outside) = eos.iter().find(|&&id| id as usize >= size) {
            return Err(Error::Input {
                what: "end-of-text token",
                expected: format!("an id below {size}, the size of the vocabulary"),
                got: outside.to_string(),
            });
        }
        let mut this = Self { bytes, ends, eos, trie: Trie::default() };
        this.trie = Trie::build(size, |id| this.bytes(id));
        Ok(this)
    }

    /// The number of tokens.
    pub fn size(&self) -> usize {
        self.ends.len() - 1
    }

    /// The bytes of a token: empty for tokens that end a text, are never placed or do not exist.
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        let at = token as usize;
        match self.ends.get(at..at + 2) {
            Some(&[start, end]) => &self.bytes[start as usize..end as usize],
            _ => &[],
        }
    }

    /// The tokens that end a text, in increasing order.
    pub fn eos(&self) -> &[TokenId] {
        &self.eos
    }

    /// Whether the token ends a text.
    pub fn is_eos(&self, token: TokenId) -> bool {
        self.eos.binary_search(&token).is_ok()
    }

    /// How many tokens have a text.
    pub fn spoken(&self) -> usize {
        self.ends.windows(2).filter(|ends| ends[0] != ends[1]).count()
    }

    /// The bytes of a sequence up to its first end-of-text token.
    pub fn text(&self, tokens: &[TokenId]) -> Vec<u8> {
        let before_end = tokens.iter().take_while(|&&token| !self.is_eos(token));
        before_end.flat_map(|&token| self.bytes(token)).copied().collect()
    }

    pub(super) fn trie(&self) -> &Trie {
        &self.trie
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_silent_tokens_have_no_bytes() {
        let words = [Some(b"a".to_vec()), None, Some(b"</s>".to_vec()), Some(Vec::new())];
        let vocabulary = Vocabulary::new(words, &[2, 2]).unwrap();
        assert_eq!((vocabulary.size(), vocabulary.spoken()), (4, 1));
        assert_eq!(vocabulary.bytes(0), b"a");
        assert!([1, 2, 3, 4, u32::MAX].iter().all(|&id| vocabulary.bytes(id).is_empty()));
        assert_eq!(vocabulary.text(&[0, 0, 2, 0]), b"aa");
        let outside = Vocabulary::new([None], &[1]).unwrap_err().to_string();
        assert_eq!(
            outside,
            "end-of-text token: expected an id below 1, the size of the vocabulary, got 1"
        );
    }
}
