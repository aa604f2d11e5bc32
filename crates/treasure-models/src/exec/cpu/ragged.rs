//! How sequences of different lengths lie in memory: one after another, without padding.

use std::ops::Range;

use crate::{
    exec::{Past, Sequence},
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
    /// Whose key and value at which position lie behind those of the rows.
    pub given: Vec<(usize, usize)>,
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

    /// One sequence after another, without the positions that a past can stand for.
    pub fn of_changed(
        embed: &Embed<Table>,
        batch: &[Sequence<'_>],
        pasts: &[Option<&Past>],
    ) -> Self {
        let fresh = |(sequence, past): (&Sequence<'_>, &Option<&Past>)| -> Vec<usize> {
            let mut wanted = vec![false; sequence.tokens.len()];
            sequence.kept().for_each(|position| wanted[position] = true);
            let covers = |at| past.is_some_and(|past| past.covers(sequence.tokens, at));
            (0..wanted.len()).filter(|&at| wanted[at] || !covers(at)).collect()
        };
        let fresh: Vec<Vec<usize>> = batch.iter().zip(pasts).map(fresh).collect();
        let total: usize = fresh.iter().map(Vec::len).sum();
        let mut ragged = Self::default();
        for (owner, (sequence, fresh)) in batch.iter().zip(&fresh).enumerate() {
            let start = ragged.tokens.len();
            ragged.tokens.extend(fresh.iter().map(|&at| sequence.tokens[at]));
            ragged.positions.extend(fresh);
            if let Some((_, rule)) = &embed.positions {
                let rows: Vec<usize> = rule.rows(sequence.tokens).collect();
                ragged.table_rows.extend(fresh.iter().map(|&at| rows[at]));
            }
            ragged.owners.resize(ragged.tokens.len(), owner);
            ragged.sigmas.push(sequence.sigma);
            let mut keys: Vec<Range<usize>> = Vec::new();
            let row_of = |position| fresh.binary_search(&position).map(|index| start + index);
            for position in 0..sequence.tokens.len() {
                let row = row_of(position).unwrap_or_else(|_| {
                    ragged.given.push((owner, position));
                    total + ragged.given.len() - 1
                });
                match keys.last_mut() {
                    Some(last) if last.end == row => last.end += 1,
                    _ => keys.push(row..row + 1),
                }
            }
            if !fresh.is_empty() {
                ragged.segments.push(fresh.len(), keys.clone());
            }
            let first = ragged.kept.len();
            ragged.kept.extend(sequence.kept().filter_map(|position| row_of(position).ok()));
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
