//! The scores of a prediction, boiled down to what a pass over states can use.
//!
//! Per position and group of tokens the best score and its token. A row is read once and may then be
//! dropped: positions × vocabulary is never held.

use std::sync::Arc;

use treasure_core::TokenId;

use super::{Error, Result, Tables};

/// What a −∞ counts: it is placed only where no completion does without, and as rarely as possible.
pub(super) const IMPOSSIBLE: f64 = -1e9;

/// Checks a row of scores: one per token, numbers or −∞.
pub(super) fn check_row(tables: &Tables, position: usize, row: &[f32]) -> Result<()> {
    let size = tables.vocabulary().size();
    if row.len() != size {
        return Err(Error::Input {
            what: "scores",
            expected: format!("one for each of {size} tokens"),
            got: format!("{} at position {position}", row.len()),
        });
    }
    let fine = |score: f32| score < f32::INFINITY;
    // Without an early end the check is a single fast pass.
    if row.chunks(1024).all(|chunk| chunk.iter().fold(true, |all, &score| all & fine(score))) {
        return Ok(());
    }
    let token = row.iter().position(|&score| !fine(score)).unwrap_or(0);
    Err(Error::Score { position, token: token as TokenId, got: row[token].to_string() })
}

/// The best score and token of every group, position by position.
#[derive(Clone, Debug)]
pub struct Scores {
    tables: Arc<Tables>,
    /// `[position, group]`.
    best: Vec<f32>,
    token: Vec<TokenId>,
    known: Vec<bool>,
}

impl Scores {
    /// No scores yet, for `len` positions.
    pub fn new(tables: Arc<Tables>, len: usize) -> Self {
        let cells = len * tables.groups();
        Self {
            tables,
            best: vec![f32::NEG_INFINITY; cells],
            token: vec![0; cells],
            known: vec![false; len],
        }
    }

    /// The scores (log-probabilities, or anything to be summed) of all tokens at a position. Ties within
    /// a group go to the lowest id.
    ///
    /// # Panics
    /// If the position is outside.
    pub fn set(&mut self, position: usize, row: &[f32]) -> Result<()> {
        check_row(&self.tables, position, row)?;
        // The first token of a class stands for it until a better one comes; one slot more takes the rest.
        let count = self.tables.classes();
        let mut classes: Vec<(f32, TokenId)> = (0..count as u32)
            .map(|class| self.tables.tokens_of_class(class)[0])
            .map(|token| (row[token as usize], token))
            .chain([(f32::INFINITY, 0)])
            .collect();
        for (token, (&score, &class)) in row.iter().zip(self.tables.class_of_tokens()).enumerate() {
            let best = &mut classes[class as usize];
            if score > best.0 {
                *best = (score, token as TokenId);
            }
        }
        let groups = self.tables.groups();
        for group in 0..groups {
            let mut best = (f32::NEG_INFINITY, TokenId::MAX);
            for &class in self.tables.classes_of_group(group as u32) {
                let (score, token) = classes[class as usize];
                if score > best.0 || (score == best.0 && token < best.1) {
                    best = (score, token);
                }
            }
            let at = position * groups + group;
            (self.best[at], self.token[at]) = best;
        }
        self.known[position] = true;
        Ok(())
    }

    /// The number of positions.
    #[expect(clippy::len_without_is_empty, reason = "scores of no positions are nothing special")]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    pub(super) fn is_known(&self, position: usize) -> bool {
        self.known[position]
    }

    /// The best score of every group at a position.
    pub(super) fn best(&self, position: usize) -> &[f32] {
        let groups = self.tables.groups();
        &self.best[position * groups..][..groups]
    }

    /// The token with the best score of a group.
    pub(super) fn token(&self, position: usize, group: u32) -> TokenId {
        self.token[position * self.tables.groups() + group as usize]
    }
}
