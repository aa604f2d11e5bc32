//! Viterbi over positions × states: the likeliest legal completion, and that of every child, from one pass.
//!
//! Messages run from both ends, so the best total with token v at position p is the sum of what meets there:
//! no new pass over the automaton for a child, only a trace. Sums are kept in f64.

use std::sync::Arc;

use treasure_core::TokenId;

use super::{
    Error, Lattice, Result, Scores, Tables,
    scores::{IMPOSSIBLE, check_row},
    tables::Edge,
};

/// No way leads here.
const NONE: f64 = f64::NEG_INFINITY;

/// The best completions of a partial fill under given scores. Filled positions count 0.
#[derive(Clone, Debug)]
pub struct Best {
    lattice: Lattice,
    scores: Arc<Scores>,
    /// `states[starts[p]..starts[p + 1]]` are on some completion before position p; messages are kept for
    /// these alone.
    starts: Vec<usize>,
    states: Vec<u32>,
    /// The best sum of the positions before, and the edge it came by.
    before: Vec<(f64, u32)>,
    /// The best sum of the positions from here on, and the edge it goes by.
    after: Vec<(f64, u32)>,
}

/// A score as it is summed.
fn counted(score: f32) -> f64 {
    f64::from(score).max(IMPOSSIBLE)
}

/// A sum as it is reported: one that holds a −∞ is −∞.
fn reported(sum: f64) -> f64 {
    if sum < IMPOSSIBLE / 2.0 { f64::NEG_INFINITY } else { sum }
}

/// Offers a sum by an edge to the state it leads to.
fn offer(from: &(f64, u32), to: &mut (f64, u32), gain: f64, by: u32) {
    let sum = from.0 + gain;
    if sum > to.0 {
        *to = (sum, by);
    }
}

impl Best {
    /// One pass from both ends. Scores must be set at every masked position.
    pub fn new(lattice: &Lattice, scores: &Arc<Scores>) -> Result<Self> {
        let (len, states) = (lattice.span().len(), lattice.span().tables().states());
        let same = Arc::ptr_eq(lattice.span().tables(), scores.tables());
        if !same || scores.len() != len {
            return Err(Error::Input {
                what: "scores",
                expected: format!("those of the lattice's tables, for {len} positions"),
                got: format!("{} positions", scores.len()),
            });
        }
        let unknown = |&p: &usize| lattice.fill()[p].is_none() && !scores.is_known(p);
        if let Some(missing) = (0..len).find(unknown) {
            return Err(Error::Input {
                what: "scores",
                expected: "a row at every mask".to_owned(),
                got: format!("none at position {missing}"),
            });
        }
        let mut starts = vec![0];
        let mut alive = Vec::new();
        for position in 0..=len {
            alive.extend(lattice.alive(position));
            starts.push(alive.len());
        }
        let none = vec![(NONE, 0); alive.len()];
        let mut this = Self {
            lattice: lattice.clone(),
            scores: scores.clone(),
            starts,
            states: alive,
            before: none.clone(),
            after: none,
        };
        // Sums by state, cleared as they are packed.
        let (mut here, mut there) = (vec![(NONE, 0); states], vec![(NONE, 0); states]);
        here[Tables::START as usize].0 = 0.0;
        for position in 0..len {
            this.pass(position, |at, edge, gain| {
                offer(&here[edge.from as usize], &mut there[edge.to as usize], gain, at);
            });
            this.pack(position, &mut here, |this| &mut this.before);
            std::mem::swap(&mut here, &mut there);
        }
        this.pack(len, &mut here, |this| &mut this.before);
        lattice.alive(len).for_each(|state| here[state as usize].0 = 0.0);
        for position in (0..len).rev() {
            this.pass(position, |at, edge, gain| {
                offer(&here[edge.to as usize], &mut there[edge.from as usize], gain, at);
            });
            this.pack(position + 1, &mut here, |this| &mut this.after);
            std::mem::swap(&mut here, &mut there);
        }
        this.pack(0, &mut here, |this| &mut this.after);
        Ok(this)
    }

    /// Every edge at a position, with the best score of its tokens.
    fn pass(&self, position: usize, mut each: impl FnMut(u32, Edge, f64)) {
        if self.lattice.fill()[position].is_some() {
            self.lattice.each_edge(position, |at, edge| each(at, edge, 0.0));
            return;
        }
        let best = self.scores.best(position);
        self.lattice.each_edge(position, |at, edge| {
            each(at, edge, counted(best[edge.group as usize]));
        });
    }

    /// Moves the sums of a position from by-state to where they are kept.
    fn pack(
        &mut self,
        position: usize,
        sums: &mut [(f64, u32)],
        kept: impl Fn(&mut Self) -> &mut Vec<(f64, u32)>,
    ) {
        for slot in self.starts[position]..self.starts[position + 1] {
            let state = self.states[slot] as usize;
            kept(self)[slot] = std::mem::replace(&mut sums[state], (NONE, 0));
        }
    }

    /// The sums of a position by state.
    fn spread(&self, position: usize, kept: &[(f64, u32)]) -> Vec<f64> {
        let mut sums = vec![NONE; self.lattice.span().tables().states()];
        for slot in self.starts[position]..self.starts[position + 1] {
            sums[self.states[slot] as usize] = kept[slot].0;
        }
        sums
    }

    /// What is kept for a state that is on some completion.
    fn at(&self, position: usize, state: u32, kept: &[(f64, u32)]) -> (f64, u32) {
        let range = self.starts[position]..self.starts[position + 1];
        let found = self.states[range.clone()].binary_search(&state);
        found.map_or((NONE, 0), |slot| kept[range.start + slot])
    }

    /// The lattice the pass was made for.
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// The scores the pass was made with.
    pub fn scores(&self) -> &Arc<Scores> {
        &self.scores
    }

    /// The score of the best completion: the sum over masked positions; −∞ if it cannot do without a
    /// token scored −∞.
    pub fn score(&self) -> f64 {
        reported(self.at(0, Tables::START, &self.after).0)
    }

    /// The best completion, filled positions included.
    pub fn completion(&self) -> Vec<TokenId> {
        let mut tokens = self.placed();
        self.trace_right(0, Tables::START, &mut tokens);
        tokens
    }

    /// For every token at a masked position, the best total of a completion that places it there; −∞
    /// where it is not legal or scored −∞. `row` is the position's.
    ///
    /// # Panics
    /// If the position is outside the span.
    pub fn max_marginals(&self, position: usize, row: &[f32], out: &mut Vec<f64>) -> Result<()> {
        let tables = self.lattice.span().tables();
        check_row(tables, position, row)?;
        let rest = self.rest_by_class(position);
        let class = tables.class_of_tokens();
        out.clear();
        let total =
            |(&score, &class): (&f32, &u32)| reported(rest[class as usize] + counted(score));
        out.extend(row.iter().zip(class).map(total));
        if let Some(token) = self.lattice.fill()[position] {
            out.fill(NONE);
            out[token as usize] = self.score();
        }
        Ok(())
    }

    /// Per class the best sum of all other positions; −∞ for the slot of tokens that no way uses.
    fn rest_by_class(&self, position: usize) -> Vec<f64> {
        let tables = self.lattice.span().tables();
        let mut groups = vec![NONE; tables.groups()];
        let before = self.spread(position, &self.before);
        let after = self.spread(position + 1, &self.after);
        self.lattice.each_edge(position, |_, edge| {
            let group = &mut groups[edge.group as usize];
            *group = group.max(before[edge.from as usize] + after[edge.to as usize]);
        });
        let mut classes = vec![NONE; tables.classes() + 1];
        for (group, &sum) in groups.iter().enumerate().filter(|&(_, &sum)| sum > NONE) {
            for &class in tables.classes_of_group(group as u32) {
                let class = &mut classes[class as usize];
                *class = class.max(sum);
            }
        }
        classes
    }

    /// The child with one more token: the best sum of its other masks (the token's own score is not in
    /// it) and its best completion. `None` if the token is not legal there.
    ///
    /// # Panics
    /// If the position is outside the span.
    pub fn child(&self, position: usize, token: TokenId) -> Option<(f64, Vec<TokenId>)> {
        if self.lattice.fill()[position].is_some_and(|placed| placed != token) {
            return None;
        }
        let (mut best, mut by) = (NONE, None);
        let before = self.spread(position, &self.before);
        let after = self.spread(position + 1, &self.after);
        for at in self.lattice.edges_with(position, token) {
            let edge = self.lattice.span().tables().edge(at);
            let sum = before[edge.from as usize] + after[edge.to as usize];
            if sum > best {
                (best, by) = (sum, Some(edge));
            }
        }
        let edge = by?;
        let mut tokens = self.placed();
        self.trace_left(position, edge.from, &mut tokens);
        tokens[position] = token;
        self.trace_right(position + 1, edge.to, &mut tokens);
        Some((reported(best), tokens))
    }

    fn placed(&self) -> Vec<TokenId> {
        self.lattice.fill().iter().map(|slot| slot.unwrap_or(0)).collect()
    }

    fn trace_left(&self, position: usize, mut state: u32, tokens: &mut [TokenId]) {
        for p in (0..position).rev() {
            let (_, at) = self.at(p + 1, state, &self.before);
            let edge = self.lattice.span().tables().edge(at);
            if self.lattice.fill()[p].is_none() {
                tokens[p] = self.scores.token(p, edge.group);
            }
            state = edge.from;
        }
    }

    fn trace_right(&self, position: usize, mut state: u32, tokens: &mut [TokenId]) {
        for (p, token) in tokens.iter_mut().enumerate().skip(position) {
            let (_, at) = self.at(p, state, &self.after);
            let edge = self.lattice.span().tables().edge(at);
            if self.lattice.fill()[p].is_none() {
                *token = self.scores.token(p, edge.group);
            }
            state = edge.to;
        }
    }
}
