//! Sum-product over positions × states: the exact conditional of independent rows given that the text matches.
//!
//! `p(x | match) ∝ 1[x matches] · Π p_i(x_i)` over the masks. Marginals and draws are exact (log-space, f64),
//! and [`Mass::log_mass`] is the logarithm of the share of the product that matches: the weight that
//! corrects a draw.

use treasure_core::TokenId;

use super::{Error, Lattice, Result, Tables, scores::check_row};

/// No mass.
const NONE: f64 = f64::NEG_INFINITY;

/// `ln Σ exp` of a list.
fn log_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = terms.clone().fold(NONE, f64::max);
    if largest == NONE {
        return NONE;
    }
    largest + terms.map(|term| (term - largest).exp()).sum::<f64>().ln()
}

/// Adds `exp(term)` to a running sum kept as (largest, Σ exp(term − largest)).
fn add(sum: &mut (f64, f64), term: f64) {
    if term > sum.0 {
        *sum = (term, sum.1 * (sum.0 - term).exp() + 1.0);
    } else if term > NONE {
        sum.1 += (term - sum.0).exp();
    }
}

fn close(sum: (f64, f64)) -> f64 {
    if sum.1 > 0.0 { sum.0 + sum.1.ln() } else { NONE }
}

/// The masses of the completions of a partial fill under independent rows of log-probabilities.
#[derive(Clone, Debug)]
pub struct Mass {
    lattice: Lattice,
    /// `[position, group]`: `ln Σ exp(score)` over the group's tokens.
    groups: Vec<f64>,
    /// `[position, state]`, of the positions before and from here on.
    before: Vec<f64>,
    after: Vec<f64>,
}

impl Mass {
    /// One pass from both ends. `rows` gives the log-probabilities at every masked position (they need
    /// not be normalised). An error if all completions have probability 0.
    pub fn new<'r>(lattice: &Lattice, rows: &dyn Fn(usize) -> &'r [f32]) -> Result<Self> {
        let tables = lattice.span().tables();
        let (len, states, groups) = (lattice.span().len(), tables.states(), tables.groups());
        let mut this = Self {
            lattice: lattice.clone(),
            groups: vec![NONE; len * groups],
            before: vec![NONE; (len + 1) * states],
            after: vec![NONE; (len + 1) * states],
        };
        for position in (0..len).filter(|&p| lattice.fill()[p].is_none()) {
            this.set(position, rows(position))?;
        }
        this.before[Tables::START as usize] = 0.0;
        for position in 0..len {
            let mut sums = vec![(NONE, 0.0); states];
            lattice.each_edge(position, |_, edge| {
                let term = this.before[position * states + edge.from as usize];
                add(&mut sums[edge.to as usize], term + this.score(position, edge.group));
            });
            let to = &mut this.before[(position + 1) * states..][..states];
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = close(sum));
        }
        for state in lattice.alive(len) {
            this.after[len * states + state as usize] = 0.0;
        }
        for position in (0..len).rev() {
            let mut sums = vec![(NONE, 0.0); states];
            lattice.each_edge(position, |_, edge| {
                let term = this.after[(position + 1) * states + edge.to as usize];
                add(&mut sums[edge.from as usize], term + this.score(position, edge.group));
            });
            let to = &mut this.after[position * states..][..states];
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = close(sum));
        }
        if this.log_mass() == NONE {
            return Err(Error::Input {
                what: "scores",
                expected: "a positive probability of some matching completion".to_owned(),
                got: "0 for all of them".to_owned(),
            });
        }
        Ok(this)
    }

    fn set(&mut self, position: usize, row: &[f32]) -> Result<()> {
        let tables = self.lattice.span().tables();
        check_row(tables, position, row)?;
        let score = |&token: &TokenId| f64::from(row[token as usize]);
        let class = |class: u32| log_sum(tables.tokens_of_class(class).iter().map(score));
        let classes: Vec<f64> = (0..tables.classes() as u32).map(class).collect();
        let to = &mut self.groups[position * tables.groups()..][..tables.groups()];
        for (group, to) in to.iter_mut().enumerate() {
            let members = tables.classes_of_group(group as u32).iter();
            *to = log_sum(members.map(|&class| classes[class as usize]));
        }
        Ok(())
    }

    /// The mass an edge's group brings at a position: nothing is left to choose where it is filled.
    fn score(&self, position: usize, group: u32) -> f64 {
        match self.lattice.fill()[position] {
            Some(_) => 0.0,
            None => self.groups[position * self.lattice.span().tables().groups() + group as usize],
        }
    }

    /// `ln Σ Π p_i(x_i)` over all matching completions: with normalised rows, the log-probability that
    /// independent draws match.
    pub fn log_mass(&self) -> f64 {
        self.after[Tables::START as usize]
    }

    /// The log-probability of every token at a masked position given that the text matches; −∞ where it
    /// is not legal. `row` is the position's.
    ///
    /// # Panics
    /// If the position is outside the span.
    pub fn marginals(&self, position: usize, row: &[f32], out: &mut Vec<f64>) -> Result<()> {
        let tables = self.lattice.span().tables();
        let states = tables.states();
        check_row(tables, position, row)?;
        out.clear();
        if let Some(token) = self.lattice.fill()[position] {
            out.resize(row.len(), NONE);
            out[token as usize] = 0.0;
            return Ok(());
        }
        let mut groups = vec![(NONE, 0.0); tables.groups()];
        self.lattice.each_edge(position, |_, edge| {
            let meet = self.before[position * states + edge.from as usize]
                + self.after[(position + 1) * states + edge.to as usize];
            add(&mut groups[edge.group as usize], meet);
        });
        let mut classes = vec![(NONE, 0.0); tables.classes() + 1];
        for (group, &sum) in groups.iter().enumerate().filter(|(_, sum)| sum.1 > 0.0) {
            for &class in tables.classes_of_group(group as u32) {
                add(&mut classes[class as usize], close(sum));
            }
        }
        let rest: Vec<f64> = classes.into_iter().map(|sum| close(sum) - self.log_mass()).collect();
        let total = |(&score, &class): (&f32, &u32)| f64::from(score) + rest[class as usize];
        out.extend(row.iter().zip(tables.class_of_tokens()).map(total));
        Ok(())
    }

    /// A completion drawn from the exact conditional: one uniform number in (0, 1) per masked position,
    /// asked for from left to right; `rows` as in [`Mass::new`].
    pub fn draw<'r>(
        &self,
        rows: &dyn Fn(usize) -> &'r [f32],
        uniform: &mut dyn FnMut(usize) -> f64,
    ) -> Result<Vec<TokenId>> {
        let tables = self.lattice.span().tables();
        let states = tables.states();
        let mut state = Tables::START;
        let mut tokens = Vec::with_capacity(self.lattice.fill().len());
        for (position, slot) in self.lattice.fill().iter().enumerate() {
            let (here, after) = (position * states, (position + 1) * states);
            if let Some(token) = *slot {
                let mut edges = self.lattice.edges_with(position, token).map(|at| tables.edge(at));
                state = edges.find(|edge| edge.from == state).map_or(state, |edge| edge.to);
                tokens.push(token);
                continue;
            }
            let row = rows(position);
            check_row(tables, position, row)?;
            // Shares of the mass from this state on: first the edge, then its token. Where rounding leaves
            // a remainder, the last one with a share is taken.
            let total = self.after[here + state as usize];
            let closed = self.lattice.span().closed_group(position);
            let mut left = uniform(position);
            let mut by = None;
            for edge in tables.edges_from(state).map(|at| tables.edge(at)) {
                let rest = self.after[after + edge.to as usize] - total;
                let share = (self.score(position, edge.group) + rest).exp();
                if share > 0.0 && edge.group != closed {
                    by = Some((edge, rest));
                    if left < share {
                        break;
                    }
                    left -= share;
                }
            }
            let mut taken = None;
            if let Some((edge, rest)) = by {
                let classes = tables.classes_of_group(edge.group).iter();
                for &token in classes.flat_map(|&class| tables.tokens_of_class(class)) {
                    let share = (f64::from(row[token as usize]) + rest).exp();
                    if share > 0.0 {
                        taken = Some((token, edge.to));
                        if left < share {
                            break;
                        }
                        left -= share;
                    }
                }
            }
            let Some((token, to)) = taken else {
                return Err(Error::NoCompletion { got: format!("no mass at position {position}") });
            };
            tokens.push(token);
            state = to;
        }
        Ok(tokens)
    }
}
