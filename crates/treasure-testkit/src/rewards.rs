//! Rewards for tests: a table over all sequences, or any function of the tokens.

use std::sync::atomic::{AtomicU64, Ordering};

use treasure_core::{Key, Result, Reward, TokenId, View};

use crate::exact;

/// A reward given by a table over V^L.
#[derive(Debug)]
pub struct TableReward {
    vocab: usize,
    values: Vec<f64>,
    scored: AtomicU64,
}

impl TableReward {
    /// A reward from values in lexicographic order of the sequences.
    pub fn new(vocab: usize, values: Vec<f64>) -> Self {
        Self { vocab, values, scored: AtomicU64::new(0) }
    }

    /// Uniform random values in (0, 1).
    pub fn random(vocab: usize, len: usize, key: Key) -> Self {
        let values = (0..vocab.pow(len as u32) as u64).map(|i| key.fold(i).uniform()).collect();
        Self::new(vocab, values)
    }

    /// The values, in lexicographic order of the sequences.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The reward of a sequence.
    pub fn of(&self, tokens: &[TokenId]) -> f64 {
        self.values[exact::index(self.vocab, tokens)]
    }

    /// Views scored so far, counted on the reward's side.
    pub fn scored(&self) -> u64 {
        self.scored.load(Ordering::Relaxed)
    }
}

impl Reward for TableReward {
    fn name(&self) -> &str {
        "table"
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        self.scored.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Ok(batch
            .iter()
            .map(|view| match view {
                View::Tokens(tokens) => self.of(tokens),
                View::Text(_) => f64::NAN,
            })
            .collect())
    }
}

/// A reward given by a function of the tokens.
pub struct FnReward<F> {
    name: &'static str,
    function: F,
}

impl<F: Fn(&[TokenId]) -> f64 + Send + Sync> FnReward<F> {
    /// A named reward.
    pub fn new(name: &'static str, function: F) -> Self {
        Self { name, function }
    }
}

impl<F: Fn(&[TokenId]) -> f64 + Send + Sync> Reward for FnReward<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        Ok(batch
            .iter()
            .map(|view| match view {
                View::Tokens(tokens) => (self.function)(tokens),
                View::Text(_) => f64::NAN,
            })
            .collect())
    }
}
