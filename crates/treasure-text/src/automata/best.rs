//! Viterbi over positions × states: the likeliest legal completion, and that of every child, from one pass.
//!
//! Messages run from both ends, so the best total with token v at position p is the sum of what meets there:
//! no new pass over the automaton for a child, only a trace. Sums are kept in f64.

use std::sync::Arc;

use treasure_core::TokenId;

use super::{
    Error, Lattice, Result, Scores, Tables,
    lattice::has,
    scores::{IMPOSSIBLE, check_row},
};

/// No way leads here.
const NONE: f64 = f64::NEG_INFINITY;

/// The best completions of a partial fill under given scores. Filled positions count 0.
#[derive(Clone, Debug)]
pub struct Best {
    lattice: Lattice,
    scores: Arc<Scores>,
    /// `[position, state]`: the best sum of positions before, and the edge it came by.
    before: Vec<f64>,
    came_by: Vec<u32>,
    /// `[position, state]`: the best sum of positions from here on, and the edge it goes by.
    after: Vec<f64>,
    goes_by: Vec<u32>,
}

/// A score as it is summed.
fn counted(score: f32) -> f64 {
    f64::from(score).max(IMPOSSIBLE)
}

/// A sum as it is reported: one that holds a −∞ is −∞.
fn reported(sum: f64) -> f64 {
    if sum < IMPOSSIBLE / 2.0 { f64::NEG_INFINITY } else { sum }
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
        let cells = (len + 1) * states;
        let mut this = Self {
            lattice: lattice.clone(),
            scores: scores.clone(),
            before: vec![NONE; cells],
            came_by: vec![0; cells],
            after: vec![NONE; cells],
            goes_by: vec![0; cells],
        };
        this.before[Tables::START as usize] = 0.0;
        for position in 0..len {
            this.forward(position);
        }
        for state in lattice.alive(len) {
            this.after[len * states + state as usize] = 0.0;
        }
        for position in (0..len).rev() {
            this.backward(position);
        }
        Ok(this)
    }

    fn states(&self) -> usize {
        self.lattice.span().tables().states()
    }

    fn forward(&mut self, position: usize) {
        let tables = self.lattice.span().tables();
        let states = tables.states();
        let (before, after) = self.before.split_at_mut((position + 1) * states);
        let before = &before[position * states..];
        let came_by = &mut self.came_by[(position + 1) * states..];
        let mut offer = |edge: u32, from: u32, to: u32, score: f64| {
            let sum = before[from as usize] + score;
            if sum > after[to as usize] {
                after[to as usize] = sum;
                came_by[to as usize] = edge;
            }
        };
        if let Some(token) = self.lattice.fill()[position] {
            for at in self.lattice.edges_with(position, token) {
                let edge = tables.edge(at);
                offer(at, edge.from, edge.to, 0.0);
            }
            return;
        }
        let best = self.scores.best(position);
        let finish = self.lattice.finish(position + 1);
        let closed = self.lattice.span().closed_group(position);
        for state in self.lattice.alive(position) {
            for at in tables.edges_from(state) {
                let edge = tables.edge(at);
                if has(finish, edge.to) && edge.group != closed {
                    offer(at, state, edge.to, counted(best[edge.group as usize]));
                }
            }
        }
    }

    fn backward(&mut self, position: usize) {
        let tables = self.lattice.span().tables();
        let states = tables.states();
        let (before, after) = self.after.split_at_mut((position + 1) * states);
        let before = &mut before[position * states..];
        let goes_by = &mut self.goes_by[position * states..];
        let mut offer = |edge: u32, from: u32, to: u32, score: f64| {
            let sum = after[to as usize] + score;
            if sum > before[from as usize] {
                before[from as usize] = sum;
                goes_by[from as usize] = edge;
            }
        };
        if let Some(token) = self.lattice.fill()[position] {
            for at in self.lattice.edges_with(position, token) {
                let edge = tables.edge(at);
                offer(at, edge.from, edge.to, 0.0);
            }
            return;
        }
        let best = self.scores.best(position);
        let closed = self.lattice.span().closed_group(position);
        for state in self.lattice.alive(position) {
            for at in tables.edges_from(state) {
                let edge = tables.edge(at);
                // States off every completion have −∞ here and are never taken.
                if edge.group != closed {
                    offer(at, state, edge.to, counted(best[edge.group as usize]));
                }
            }
        }
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
        reported(self.after[Tables::START as usize])
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
        out.extend(row.iter().zip(class).map(|(&score, &class)| {
            let rest = rest.get(class as usize).copied().unwrap_or(NONE);
            reported(rest + counted(score))
        }));
        if let Some(token) = self.lattice.fill()[position] {
            out.fill(NONE);
            out[token as usize] = self.score();
        }
        Ok(())
    }

    /// Per class the best sum of all other positions.
    fn rest_by_class(&self, position: usize) -> Vec<f64> {
        let tables = self.lattice.span().tables();
        let mut groups = vec![NONE; tables.groups()];
        for at in self.lattice.edges(position) {
            let group = &mut groups[tables.edge(at).group as usize];
            *group = group.max(self.meet(position, at));
        }
        let mut classes = vec![NONE; tables.classes()];
        for (group, &sum) in groups.iter().enumerate().filter(|&(_, &sum)| sum > NONE) {
            for &class in tables.classes_of_group(group as u32) {
                let class = &mut classes[class as usize];
                *class = class.max(sum);
            }
        }
        classes
    }

    /// The best sum of all other positions when this edge is taken at this one.
    fn meet(&self, position: usize, edge: u32) -> f64 {
        let edge = self.lattice.span().tables().edge(edge);
        self.before[position * self.states() + edge.from as usize]
            + self.after[(position + 1) * self.states() + edge.to as usize]
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
        for at in self.lattice.edges_with(position, token) {
            let sum = self.meet(position, at);
            if sum > best {
                (best, by) = (sum, Some(at));
            }
        }
        let edge = self.lattice.span().tables().edge(by?);
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
            let at = self.came_by[(p + 1) * self.states() + state as usize];
            let edge = self.lattice.span().tables().edge(at);
            if self.lattice.fill()[p].is_none() {
                tokens[p] = self.scores.token(p, edge.group);
            }
            state = edge.from;
        }
    }

    fn trace_right(&self, position: usize, mut state: u32, tokens: &mut [TokenId]) {
        for (p, token) in tokens.iter_mut().enumerate().skip(position) {
            let at = self.goes_by[p * self.states() + state as usize];
            let edge = self.lattice.span().tables().edge(at);
            if self.lattice.fill()[p].is_none() {
                *token = self.scores.token(p, edge.group);
            }
            state = edge.to;
        }
    }
}
