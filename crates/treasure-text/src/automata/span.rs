//! A pattern on a run of positions: tokens, then end-of-text tokens up to the last position.

use std::sync::Arc;

use treasure_core::TokenId;

use super::{Lattice, Result, Tables};

/// A pattern on `len` positions, of which the text fills at least `min_len`.
///
/// The text is what stands before the first end-of-text token; after it only such tokens may follow. A text
/// that fills all positions needs none. It must match the pattern whole.
#[derive(Clone, Debug)]
pub struct Span {
    tables: Arc<Tables>,
    len: usize,
    min_len: usize,
}

impl Span {
    /// A pattern on `len` positions; the text may be shorter.
    pub fn new(tables: Arc<Tables>, len: usize) -> Self {
        let min_len = if tables.eos_group().is_some() { 0 } else { len };
        Self { tables, len, min_len }
    }

    /// The same with end-of-text tokens forbidden at the first `min_len` positions (at most all of them).
    #[must_use]
    pub fn min_len(mut self, min_len: usize) -> Self {
        self.min_len = self.min_len.max(min_len).min(self.len);
        self
    }

    /// A pattern on exactly `len` positions: no end-of-text token, as in a hole with text behind it.
    pub fn exactly(tables: Arc<Tables>, len: usize) -> Self {
        Self { tables, len, min_len: len }
    }

    /// The number of positions.
    #[expect(clippy::len_without_is_empty, reason = "a span of no positions is nothing special")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many positions the text fills at least.
    pub fn shortest_allowed(&self) -> usize {
        self.min_len
    }

    /// The tables.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The legal tokens of a partial fill (`None` is a mask).
    pub fn lattice(&self, fill: &[Option<TokenId>]) -> Result<Lattice> {
        Lattice::new(self.clone(), fill)
    }

    /// The group that may not be used at a position, or a number that is none.
    pub(super) fn closed_group(&self, position: usize) -> u32 {
        let eos = self.tables.eos_group().filter(|_| position < self.min_len);
        eos.unwrap_or(u32::MAX)
    }
}
