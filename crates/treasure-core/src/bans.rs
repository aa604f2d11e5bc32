//! Tokens that may not be placed: anywhere, or before a position.

use crate::TokenId;

/// Which tokens are forbidden where. Applies before argmax, top-k and normalisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bans {
    everywhere: Vec<TokenId>,
    before: Vec<(TokenId, usize)>,
}

impl Bans {
    /// Nothing is forbidden.
    pub fn none() -> Self {
        Self::default()
    }

    /// Forbids a token everywhere.
    #[must_use]
    pub fn everywhere(mut self, token: TokenId) -> Self {
        if let Err(at) = self.everywhere.binary_search(&token) {
            self.everywhere.insert(at, token);
        }
        self
    }

    /// Forbids a token at every position below `position`, for instance EOS before a minimum length.
    #[must_use]
    pub fn before(mut self, token: TokenId, position: usize) -> Self {
        self.before.push((token, position));
        self.before.sort_unstable();
        self.before.dedup();
        self
    }

    /// The tokens forbidden everywhere, in increasing order.
    pub fn anywhere(&self) -> &[TokenId] {
        &self.everywhere
    }

    /// The tokens forbidden at every position below another, in increasing order.
    pub fn early(&self) -> &[(TokenId, usize)] {
        &self.before
    }

    /// The distinct tokens forbidden at a position, in increasing order.
    pub fn at(&self, position: usize) -> Vec<TokenId> {
        let mut banned = self.everywhere.clone();
        banned.extend(
            self.before.iter().filter(|&&(_, end)| position < end).map(|&(token, _)| token),
        );
        banned.sort_unstable();
        banned.dedup();
        banned
    }
}
