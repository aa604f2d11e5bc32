//! What a finished text must satisfy, whatever it is rewarded for: legal tokens and legal completions.
//!
//! Guarantee asked of an implementation: a token is legal at a mask exactly if some fill of the other
//! masks satisfies the constraint, so that a search that places legal tokens only never meets a dead end.
//! Methods know nothing of it: [`crate::Problem`] answers their questions within the constraint.

use std::{ops::Range, sync::Arc};

use crate::{Bans, MaskedSeq, Result, TokenId, TokenSet};

/// A constraint on whole sequences.
pub trait Constraint: Send + Sync {
    /// The tokens that may not be placed, position by position. The model itself leaves them out.
    fn bans(&self) -> &Bans;

    /// What the masks of a state may hold; `None` if the bans say it all. An error if the state cannot be
    /// completed.
    fn open(&self, state: &MaskedSeq) -> Result<Option<Box<dyn Legal>>>;

    /// The positions that can hold nothing but the same token once it stands at `position`: padding
    /// behind an end of text.
    fn padding(&self, _position: usize, _token: TokenId) -> Range<usize> {
        0..0
    }
}

/// What the masks of a state may still hold.
pub trait Legal: Send + Sync {
    /// The exact set of legal tokens at a masked position, of a vocabulary of `size` tokens.
    fn allowed(&self, position: usize, size: usize, out: &mut TokenSet);

    /// Places a legal token; what is legal elsewhere follows.
    fn place(&mut self, position: usize, token: TokenId) -> Result<()>;

    /// What the rows of all masks, in position order, say about each of them given that the text must be
    /// legal; `None` if nothing but the legal sets is known, or if the rows give no legal text a chance.
    fn ahead(&self, _rows: &[&[f32]]) -> Result<Option<Box<dyn Ahead>>> {
        Ok(None)
    }

    /// Ways to complete the state, from the scores of all tokens at every mask, in position order.
    fn fills(&self, rows: &[&[f32]]) -> Result<Arc<dyn Fills>>;

    /// The same again, to go on from in another way.
    fn again(&self) -> Box<dyn Legal>;
}

/// A look ahead from one prediction: which token a mask holds if every mask follows its own row and the
/// text comes out legal. A legal token behind which no likely text lies is then unlikely itself.
pub trait Ahead: Send + Sync {
    /// The log-probabilities of all tokens at a mask, from its row; −∞ where a token is not legal. Returns
    /// the logarithm of the sum of the row itself.
    fn row(&mut self, position: usize, row: &[f32], out: &mut Vec<f32>) -> Result<f64>;

    /// Places a legal token; what is likely elsewhere follows.
    fn place(&mut self, position: usize, token: TokenId) -> Result<()>;

    /// Whether the text has ended before a position, so that it holds padding whatever the model says.
    fn is_padding(&self, position: usize) -> bool;

    /// The same again, to go on from in another way.
    fn again(&self) -> Box<dyn Ahead>;
}

/// The likeliest legal completions of a state and of its children, from one prediction.
pub trait Fills: Send + Sync {
    /// The likeliest legal completion that has these tokens at masks of the state; `None` if there is none.
    fn with(&self, placed: &[(usize, TokenId)]) -> Option<Vec<TokenId>>;

    /// Whether a completion has ended before a position, so that it holds padding there.
    fn is_padding(&self, _whole: &[TokenId], _position: usize) -> bool {
        false
    }
}

impl Constraint for Bans {
    fn bans(&self) -> &Bans {
        self
    }

    fn open(&self, _: &MaskedSeq) -> Result<Option<Box<dyn Legal>>> {
        Ok(None)
    }
}

impl<C: Constraint + ?Sized> Constraint for Arc<C> {
    fn bans(&self) -> &Bans {
        (**self).bans()
    }

    fn open(&self, state: &MaskedSeq) -> Result<Option<Box<dyn Legal>>> {
        (**self).open(state)
    }

    fn padding(&self, position: usize, token: TokenId) -> Range<usize> {
        (**self).padding(position, token)
    }
}
