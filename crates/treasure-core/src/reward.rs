//! What the search asks of a reward: `r(x)` of the paper, on complete sequences.

use crate::{AllTokens, Range, Reader, Result, View};

/// A reward on what is read of complete sequences; higher is better.
pub trait Reward: Send + Sync {
    /// A short name for messages.
    fn name(&self) -> &str;

    /// One number per view, in order, each independent of the rest of the batch.
    fn score(&self, batch: &[&View]) -> Result<Vec<f64>>;

    /// The numbers it promises to give: at most 0 of log-probabilities, 0 to 1 of rules.
    fn range(&self) -> Range {
        Range::ANY
    }
}

/// A reward with what reads sequences for it. A reward alone, by reference, reads all tokens.
#[derive(Clone, Copy)]
pub struct Scoring<'a> {
    /// What the reward sees of a sequence.
    pub reader: &'a dyn Reader,
    /// What it is worth.
    pub reward: &'a dyn Reward,
}

impl<'a, R: Reward> From<&'a R> for Scoring<'a> {
    fn from(reward: &'a R) -> Self {
        Self { reader: &AllTokens, reward }
    }
}

impl<'a> From<&'a dyn Reward> for Scoring<'a> {
    fn from(reward: &'a dyn Reward) -> Self {
        Self { reader: &AllTokens, reward }
    }
}
