//! What a finished text must satisfy, whatever it is rewarded for: legal tokens and legal completions.
//!
//! Guarantee asked of an implementation: a token is legal at a mask exactly if some fill of the other
//! masks satisfies the constraint, so that a search that places legal tokens only never meets a dead end.
//! Methods know nothing of it: [`crate::Problem`] answers their questions within the constraint.

use std::sync::Arc;

use crate::{Bans, MaskedSeq, Result, TokenId, TokenSet};

/// A constraint on whole sequences.
pub trait Constraint: Send + Sync {
    /// The tokens that may not be placed, position by position. The model itself leaves them out.
    fn bans(&self) -> &Bans;

    /// What the masks of a state may hold; `None` if the bans say it all. An error if the state cannot be
    /// completed.
    fn open(&self, state: &MaskedSeq) -> Result<Option<Box<dyn Legal>>>;
}

/// What the masks of a state may still hold.
pub trait Legal: Send + Sync {
    /// The exact set of legal tokens at a masked position, of a vocabulary of `size` tokens.
    fn allowed(&self, position: usize, size: usize, out: &mut TokenSet);

    /// Places a legal token; what is legal elsewhere follows.
    fn place(&mut self, position: usize, token: TokenId) -> Result<()>;

    /// Ways to complete the state, from the scores of all tokens at every mask, in position order.
    fn fills(&self, rows: &[Vec<f32>]) -> Result<Arc<dyn Fills>>;

    /// The same again, to go on from in another way.
    fn again(&self) -> Box<dyn Legal>;
}

/// The likeliest legal completions of a state and of its children, from one prediction.
pub trait Fills: Send + Sync {
    /// The likeliest legal completion that has these tokens at masks of the state; `None` if there is none.
    fn with(&self, placed: &[(usize, TokenId)]) -> Option<Vec<TokenId>>;
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
}

/// A constraint that allows what its bans allow, position by position, by way of legal sets: for tests
/// and comparisons with the short way.
#[derive(Clone, Debug)]
pub struct Positionwise(pub Bans);

impl Constraint for Positionwise {
    fn bans(&self) -> &Bans {
        &self.0
    }

    fn open(&self, state: &MaskedSeq) -> Result<Option<Box<dyn Legal>>> {
        Ok(Some(Box::new(Free { bans: self.0.clone(), state: state.clone() })))
    }
}

/// Masks that do not see each other.
struct Free {
    bans: Bans,
    state: MaskedSeq,
}

impl Legal for Free {
    fn allowed(&self, position: usize, size: usize, out: &mut TokenSet) {
        out.assign(std::iter::repeat_n(true, size));
        self.bans.at(position).into_iter().for_each(|token| out.remove(token));
    }

    fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        self.state.reveal_in_place(position, token);
        Ok(())
    }

    fn fills(&self, rows: &[Vec<f32>]) -> Result<Arc<dyn Fills>> {
        let best = |row: &Vec<f32>| {
            let better = |best: (TokenId, f32), (token, &score): (usize, &f32)| {
                if score > best.1 { (token as TokenId, score) } else { best }
            };
            row.iter().enumerate().fold((0, f32::NEG_INFINITY), better).0
        };
        let whole = self.state.complete_with(rows.iter().map(best));
        Ok(Arc::new(Independent { whole }))
    }

    fn again(&self) -> Box<dyn Legal> {
        Box::new(Self { bans: self.bans.clone(), state: self.state.clone() })
    }
}

/// The likeliest token at every mask, whatever stands elsewhere.
struct Independent {
    whole: Vec<TokenId>,
}

impl Fills for Independent {
    fn with(&self, placed: &[(usize, TokenId)]) -> Option<Vec<TokenId>> {
        let mut whole = self.whole.clone();
        placed.iter().for_each(|&(position, token)| whole[position] = token);
        Some(whole)
    }
}
