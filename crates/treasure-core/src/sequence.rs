//! A partially masked sequence, the state `z_n^{1:L}` of the paper.
//!
//! Guarantees: a revealed token never changes and the number of masks is always known.

use crate::{Error, Result};

/// A vocabulary index.
pub type TokenId = u32;

const MASK: TokenId = TokenId::MAX;

/// A sequence in which some positions are still masked.
///
/// The mask is not a token here: a position holds a token or nothing, and a model's own mask id
/// is the model's business.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MaskedSeq {
    tokens: Box<[TokenId]>,
    n_masked: usize,
}

impl MaskedSeq {
    /// A sequence of `len` masks.
    pub fn empty(len: usize) -> Self {
        Self { tokens: vec![MASK; len].into(), n_masked: len }
    }

    /// A sequence from tokens and holes (`None` is the mask).
    ///
    /// # Panics
    /// If a token is `u32::MAX`, which no vocabulary can hold.
    pub fn from_slots(slots: impl IntoIterator<Item = Option<TokenId>>) -> Self {
        let tokens: Box<[TokenId]> = slots
            .into_iter()
            .map(|slot| match slot {
                Some(token) => {
                    assert_ne!(token, MASK, "token id u32::MAX is reserved");
                    token
                }
                None => MASK,
            })
            .collect();
        let n_masked = tokens.iter().filter(|&&token| token == MASK).count();
        Self { tokens, n_masked }
    }

    /// A prompt followed by masks, `len` positions in all.
    pub fn with_prompt(prompt: &[TokenId], len: usize) -> Result<Self> {
        let Some(masks) = len.checked_sub(prompt.len()) else {
            return Err(Error::Invalid {
                what: "prompt",
                expected: format!("at most the {len} tokens of the sequence"),
                got: format!("{} tokens", prompt.len()),
            });
        };
        Self::template(prompt.iter().copied().map(Some).chain(std::iter::repeat_n(None, masks)))
    }

    /// A sequence from tokens and holes (`None` is the mask), refusing the reserved id `u32::MAX`.
    pub fn template(slots: impl IntoIterator<Item = Option<TokenId>>) -> Result<Self> {
        let slots: Vec<_> = slots.into_iter().collect();
        match slots.iter().position(|&slot| slot == Some(MASK)) {
            Some(position) => Err(Error::Invalid {
                what: "token id",
                expected: format!("below {MASK}"),
                got: format!("{MASK} at position {position}"),
            }),
            None => Ok(Self::from_slots(slots)),
        }
    }

    /// The number of positions.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether the sequence has no position at all.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The number of masks left, the paper's `n`.
    pub fn n_masked(&self) -> usize {
        self.n_masked
    }

    /// The token at a position, or `None` where it is masked.
    ///
    /// # Panics
    /// If `position` is outside the sequence.
    pub fn get(&self, position: usize) -> Option<TokenId> {
        let token = self.tokens[position];
        (token != MASK).then_some(token)
    }

    /// All positions, in order.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Option<TokenId>> + '_ {
        self.tokens.iter().map(|&token| (token != MASK).then_some(token))
    }

    /// The masked positions, in increasing order.
    pub fn masked(&self) -> impl Iterator<Item = usize> + '_ {
        self.tokens
            .iter()
            .enumerate()
            .filter(|&(_, &token)| token == MASK)
            .map(|(position, _)| position)
    }

    /// The tokens of a complete sequence, or `None` while a mask is left.
    pub fn complete(&self) -> Option<&[TokenId]> {
        (self.n_masked == 0).then_some(&self.tokens)
    }

    /// A copy with one more token revealed.
    ///
    /// # Panics
    /// If the position is not masked or the token is `u32::MAX`.
    #[must_use]
    pub fn reveal(&self, position: usize, token: TokenId) -> Self {
        let mut child = self.clone();
        child.reveal_in_place(position, token);
        child
    }

    /// Reveals a token.
    ///
    /// # Panics
    /// If the position is not masked or the token is `u32::MAX`.
    pub fn reveal_in_place(&mut self, position: usize, token: TokenId) {
        assert_ne!(token, MASK, "token id u32::MAX is reserved");
        assert_eq!(self.tokens[position], MASK, "position {position} is already revealed");
        self.tokens[position] = token;
        self.n_masked -= 1;
    }

    /// A copy with some positions masked again.
    ///
    /// # Panics
    /// If a position is outside the sequence.
    #[must_use]
    pub fn remask(&self, positions: impl IntoIterator<Item = usize>) -> Self {
        let mut masked = self.clone();
        for position in positions {
            if std::mem::replace(&mut masked.tokens[position], MASK) != MASK {
                masked.n_masked += 1;
            }
        }
        masked
    }

    /// A complete sequence: masks are filled in order from `fill`, which must yield one token per mask.
    ///
    /// # Panics
    /// If `fill` runs out before the masks do.
    pub fn complete_with(&self, fill: impl IntoIterator<Item = TokenId>) -> Vec<TokenId> {
        let mut fill = fill.into_iter();
        self.tokens
            .iter()
            .map(
                |&token| {
                    if token == MASK { fill.next().expect("one token per mask") } else { token }
                },
            )
            .collect()
    }
}
