//! A sequence to run and the rows of it that are wanted.

use super::{no_position, no_token};
use crate::{Error, Result, stack::Outline};

/// Which final hidden states a sequence wants.
#[derive(Clone, Copy, Debug)]
pub enum Keep<'a> {
    /// All of them.
    All,
    /// The first token's.
    First,
    /// Those at these positions, in this order.
    Positions(&'a [usize]),
}

/// A sequence to run.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// Token ids.
    pub tokens: &'a [u32],
    /// Which rows are wanted.
    pub keep: Keep<'a>,
    /// The noise level; only time-conditioned networks read it.
    pub sigma: f32,
}

impl<'a> Sequence<'a> {
    /// A sequence for a network without time, all rows wanted.
    pub fn all(tokens: &'a [u32]) -> Self {
        Self { tokens, keep: Keep::All, sigma: 0.0 }
    }

    /// The positions whose rows are wanted, in order.
    pub fn kept(&self) -> impl Iterator<Item = usize> {
        let (range, list): (_, &[usize]) = match self.keep {
            Keep::All => (0..self.tokens.len(), &[]),
            Keep::First => (0..self.tokens.len().min(1), &[]),
            Keep::Positions(positions) => (0..0, positions),
        };
        range.chain(list.iter().copied())
    }

    /// Refuses tokens, lengths and positions that do not exist.
    pub(super) fn check(&self, outline: &Outline) -> Result<()> {
        let (tokens, vocabulary) = (self.tokens, outline.tokens);
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(no_token(token, vocabulary));
        }
        if let Some((rows, rule)) = outline.positions
            && rule.rows(tokens).any(|row| row >= rows)
        {
            let most = rows.saturating_sub(rule.first());
            return Err(Error::expected(
                "sequence",
                format!("at most {most} tokens"),
                tokens.len(),
            ));
        }
        if let Keep::Positions(positions) = self.keep
            && let Some(&position) = positions.iter().find(|&&position| position >= tokens.len())
        {
            return Err(no_position(position, tokens.len()));
        }
        Ok(())
    }
}
