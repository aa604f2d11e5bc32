//! Sum-product over positions × states: the exact conditional of independent rows given that the text matches.
//!
//! The law of a text is that of its tokens up to and including the first end of text: `Π p_i(x_i)` over the
//! masks there. What stands behind an end is padding and certain. `p(x | match)` is this law restricted to the
//! texts that match. Marginals and draws are exact (log-space, f64), and [`Mass::log_mass`] is the logarithm of
//! the share of the law that matches: the weight that corrects a draw.

use std::sync::Arc;

use treasure_core::TokenId;

use super::{Error, Lattice, Result, Tables, exponentials, scores::check_row, tables::Edge};

/// No mass.
const NONE: f64 = f64::NEG_INFINITY;

/// A running sum of nothing.
const EMPTY: (f64, f64) = (NONE, 0.0);

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

/// The masses of the completions of a partial fill under independent rows.
#[derive(Clone, Debug)]
pub struct Mass {
    lattice: Lattice,
    rows: Arc<Rows>,
    /// Ends of text that were drawn: unlike those that were given they have a probability.
    drawn: Vec<bool>,
    /// `[position, state]`, of the positions before and from here on.
    before: Vec<f64>,
    after: Vec<f64>,
    /// `before` is known up to this position, `after` from that one on.
    reached: usize,
    led: usize,
}

/// What a pass needs of the rows.
#[derive(Debug)]
struct Rows {
    /// `[position, group]`: the log-probability of the group's tokens together.
    groups: Vec<f64>,
    /// By position, what is taken off a score to make it a log-probability.
    totals: Vec<f64>,
}

impl Rows {
    /// Reads the row of a position once.
    fn set(&mut self, tables: &Tables, position: usize, row: &[f32]) -> Result<()> {
        check_row(tables, position, row)?;
        let largest = f64::from(exponentials::largest(row));
        if largest == NONE {
            return Ok(());
        }
        let mut classes = vec![0.0; tables.classes() + 1];
        let class_of = tables.class_of_tokens();
        exponentials::each(row, largest, |token, exp| classes[class_of[token] as usize] += exp);
        let total = classes.iter().sum::<f64>();
        self.totals[position] = largest + total.ln();
        let to = &mut self.groups[position * tables.groups()..][..tables.groups()];
        for (group, to) in to.iter_mut().enumerate() {
            let members = tables.classes_of_group(group as u32).iter();
            *to = (members.map(|&class| classes[class as usize]).sum::<f64>() / total).ln();
        }
        Ok(())
    }
}

impl Mass {
    /// One pass from both ends. `rows` gives the log-probabilities at every masked position, up to a
    /// constant of each row. `None` if all completions have probability 0.
    pub fn new<'r>(lattice: &Lattice, rows: &dyn Fn(usize) -> &'r [f32]) -> Result<Option<Self>> {
        let tables = lattice.span().tables();
        let (len, states) = (lattice.span().len(), tables.states());
        let mut read = Rows { groups: vec![NONE; len * tables.groups()], totals: vec![0.0; len] };
        for position in (0..len).filter(|&p| lattice.fill()[p].is_none()) {
            read.set(tables, position, rows(position))?;
        }
        let mut this = Self {
            lattice: lattice.clone(),
            rows: Arc::new(read),
            drawn: vec![false; len],
            before: vec![NONE; (len + 1) * states],
            after: vec![NONE; (len + 1) * states],
            reached: 0,
            led: len,
        };
        this.before[Tables::START as usize] = 0.0;
        for state in lattice.alive(len) {
            this.after[len * states + state as usize] = 0.0;
        }
        Ok((this.log_mass() > NONE).then_some(this))
    }

    /// The lattice of the tokens placed so far.
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// Places a legal token that was drawn from the marginals: all others are then given that one.
    pub fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        self.lattice.reveal(position, token)?;
        self.drawn[position] = self.lattice.span().tables().vocabulary().is_eos(token);
        self.reached = self.reached.min(position);
        self.led = self.led.max(position + 1);
        Ok(())
    }

    /// Makes sure of `before` up to a position and of `after` from another one on.
    fn settle(&mut self, reached: usize, led: usize) {
        let states = self.lattice.span().tables().states();
        let mut sums = vec![EMPTY; states];
        for position in self.reached..reached {
            self.lattice.each_edge(position, |_, edge| {
                let term = self.before[position * states + edge.from as usize];
                add(&mut sums[edge.to as usize], term + self.score(position, edge));
            });
            let to = &mut self.before[(position + 1) * states..][..states];
            to.iter_mut()
                .zip(&mut sums)
                .for_each(|(to, sum)| *to = close(std::mem::replace(sum, EMPTY)));
        }
        for position in (led..self.led).rev() {
            self.lattice.each_edge(position, |_, edge| {
                let term = self.after[(position + 1) * states + edge.to as usize];
                add(&mut sums[edge.from as usize], term + self.score(position, edge));
            });
            let to = &mut self.after[position * states..][..states];
            to.iter_mut()
                .zip(&mut sums)
                .for_each(|(to, sum)| *to = close(std::mem::replace(sum, EMPTY)));
        }
        (self.reached, self.led) = (self.reached.max(reached), self.led.min(led));
    }

    /// The mass an edge brings at a position. What stands behind the end of the text is certain; where a
    /// token is placed nothing is left to choose, but whether an end that was drawn is *the* end.
    fn score(&self, position: usize, edge: Edge) -> f64 {
        let tables = self.lattice.span().tables();
        let given = self.lattice.fill()[position].is_some() && !self.drawn[position];
        if given || edge.from == tables.end_of_text() {
            return 0.0;
        }
        self.rows.groups[position * tables.groups() + edge.group as usize]
    }

    /// The share of each end of text among all of them, by the row; alike if it gives them nothing.
    fn ends(&self, row: &[f32]) -> Vec<(TokenId, f64)> {
        let ends = self.lattice.span().tables().vocabulary().eos();
        let scores = ends.iter().map(|&end| f64::from(row[end as usize]));
        let mut sum = EMPTY;
        scores.clone().for_each(|score| add(&mut sum, score));
        match close(sum) {
            NONE => ends.iter().map(|&end| (end, -(ends.len() as f64).ln())).collect(),
            all => ends.iter().zip(scores).map(|(&end, score)| (end, score - all)).collect(),
        }
    }

    /// The log-probability that a text of independent draws at the masks matches.
    pub fn log_mass(&mut self) -> f64 {
        self.settle(0, 0);
        self.after[Tables::START as usize]
    }

    /// What is taken off the scores of a mask to make them log-probabilities.
    pub fn log_sum(&self, position: usize) -> f64 {
        self.rows.totals[position]
    }

    /// Whether the text has ended before a position, so that it holds padding.
    pub fn is_padding(&self, position: usize) -> bool {
        let vocabulary = self.lattice.span().tables().vocabulary();
        let placed = self.lattice.fill().iter().take(position).flatten();
        placed.into_iter().any(|&token| vocabulary.is_eos(token))
    }

    /// The log-probability of every token at a masked position given that the text matches, as a `number`;
    /// −∞ where it is not legal. `row` is the position's.
    ///
    /// # Panics
    /// If the position is outside the span.
    pub fn marginals<T: Copy>(
        &mut self,
        position: usize,
        row: &[f32],
        out: &mut Vec<T>,
        number: impl Fn(f64) -> T,
    ) -> Result<()> {
        self.settle(position, position + 1);
        let tables = self.lattice.span().tables();
        let states = tables.states();
        check_row(tables, position, row)?;
        out.clear();
        if let Some(token) = self.lattice.fill()[position] {
            out.resize(row.len(), number(NONE));
            out[token as usize] = number(0.0);
            return Ok(());
        }
        // Per group, what the other positions bring; behind an end the row itself brings nothing.
        let (mut groups, mut all) = (vec![EMPTY; tables.groups()], EMPTY);
        let mut padding = EMPTY;
        self.lattice.each_edge(position, |_, edge| {
            let meet = self.before[position * states + edge.from as usize]
                + self.after[(position + 1) * states + edge.to as usize];
            match edge.from == tables.end_of_text() {
                true => add(&mut padding, meet),
                false => add(&mut groups[edge.group as usize], meet),
            }
            add(&mut all, meet + self.score(position, edge));
        });
        let all = close(all);
        let mut classes = vec![EMPTY; tables.classes() + 1];
        for (group, &sum) in groups.iter().enumerate().filter(|(_, sum)| sum.1 > 0.0) {
            for &class in tables.classes_of_group(group as u32) {
                add(&mut classes[class as usize], close(sum));
            }
        }
        let total = self.rows.totals[position];
        let rest: Vec<f64> = classes.into_iter().map(|sum| close(sum) - all - total).collect();
        let class_of = tables.class_of_tokens();
        let total = |(&score, &class): (&f32, &u32)| f64::from(score) + rest[class as usize];
        out.extend(row.iter().zip(class_of).map(total).map(&number));
        if padding.1 > 0.0 {
            let padding = close(padding) - all;
            for (end, share) in self.ends(row) {
                let mut sum = EMPTY;
                let own = total((&row[end as usize], &class_of[end as usize]));
                [own, padding + share].into_iter().for_each(|term| add(&mut sum, term));
                out[end as usize] = number(close(sum));
            }
        }
        Ok(())
    }

    /// A completion drawn from the exact conditional: one uniform number in (0, 1) per masked position,
    /// asked for from left to right; `rows` as in [`Mass::new`].
    pub fn draw<'r>(
        &mut self,
        rows: &dyn Fn(usize) -> &'r [f32],
        uniform: &mut dyn FnMut(usize) -> f64,
    ) -> Result<Vec<TokenId>> {
        self.settle(0, 0);
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
                let share = (self.score(position, edge) + rest).exp();
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
                let tokens = classes.flat_map(|&class| tables.tokens_of_class(class));
                let own = |&token: &TokenId| f64::from(row[token as usize]);
                let total = self.rows.totals[position];
                let shares: Vec<(TokenId, f64)> = match edge.from == tables.end_of_text() {
                    true => self.ends(row),
                    false => tokens.map(|token| (*token, own(token) - total)).collect(),
                };
                for (token, own) in shares {
                    let share = (own + rest).exp();
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
