//! How sequences of different lengths lie in memory: one after another, without padding.

use std::ops::Range;

use crate::{
    exec::Sequence,
    kernels::{Segments, Table},
    stack::Embed,
};

/// Rows of a batch: tokens to run, which keys each sees, which rows are wanted in the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ragged {
    /// Token id per row.
    pub tokens: Vec<u32>,
    /// Row of the table of learned positions per row.
    pub table_rows: Vec<usize>,
    /// Position in its sequence per row.
    pub positions: Vec<usize>,
    /// Whose noise level applies, per row.
    pub owners: Vec<usize>,
    /// Attention of all rows.
    pub segments: Segments,
    /// Rows wanted in the end.
    pub kept: Vec<usize>,
    /// Attention of the wanted rows alone, `queries` counting within `kept`.
    pub kept_segments: Segments,
    /// Noise levels by owner.
    pub sigmas: Vec<f32>,
}

impl Ragged {
    /// Appends rows for `tokens[shared..]`; the first `shared` tokens were run before as rows `prefix`.
    /// Returns the rows of the whole sequence.
    fn append(
        &mut self,
        embed: &Embed<Table>,
        tokens: &[u32],
        shared: usize,
        prefix: &[Range<usize>],
        sigma: f32,
    ) -> Vec<Range<usize>> {
        let start = self.tokens.len();
        self.tokens.extend_from_slice(&tokens[shared..]);
        self.positions.extend(shared..tokens.len());
        if let Some((_, rule)) = &embed.positions {
            self.table_rows.extend(rule.rows(tokens).skip(shared));
        }
        self.owners.resize(self.tokens.len(), self.sigmas.len());
        self.sigmas.push(sigma);
        let mut keys = first_rows(prefix, shared);
        let own = start..self.tokens.len();
        if !own.is_empty() {
            keys.push(own.clone());
            self.segments.push(own.len(), keys.clone());
        }
        keys
    }

    /// One sequence after another.
    pub fn of_sequences(embed: &Embed<Table>, batch: &[Sequence<'_>]) -> Self {
        let mut ragged = Self::default();
        for sequence in batch {
            let start = ragged.tokens.len();
            let keys = ragged.append(embed, sequence.tokens, 0, &[], sequence.sigma);
            let first = ragged.kept.len();
            ragged.kept.extend(sequence.kept().map(|position| start + position));
            ragged.kept_segments.push(ragged.kept.len() - first, keys);
        }
        ragged
    }

    /// Sequences in lexicographic order, each sharing the rows of its common prefix with the one before.
    /// All rows are kept. The second part tells which rows make up each sequence.
    pub fn of_sorted_prefixes(
        embed: &Embed<Table>,
        batch: &[&[u32]],
    ) -> (Self, Vec<Vec<Range<usize>>>) {
        let mut ragged = Self::default();
        let mut paths: Vec<Vec<Range<usize>>> = Vec::with_capacity(batch.len());
        let mut before: &[u32] = &[];
        for tokens in batch {
            let shared = common_prefix(before, tokens);
            let prefix = paths.last().map_or(&[][..], Vec::as_slice);
            let path = ragged.append(embed, tokens, shared, prefix, 0.0);
            paths.push(path);
            before = tokens;
        }
        ragged.kept = (0..ragged.tokens.len()).collect();
        ragged.kept_segments = ragged.segments.clone();
        (ragged, paths)
    }
}

/// How many leading tokens two sequences share.
pub(super) fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first `count` rows of a list of ranges.
fn first_rows(ranges: &[Range<usize>], count: usize) -> Vec<Range<usize>> {
    let mut left = count;
    let mut first = Vec::with_capacity(ranges.len() + 1);
    for range in ranges {
        let take = left.min(range.len());
        if take > 0 {
            first.push(range.start..range.start + take);
        }
        left -= take;
    }
    first
}
