//! What the rows of all masks say about each of them, given that every pattern must match.
//!
//! Parts do not see each other, so each has a [`Mass`] of its own; a mask outside all of them has its own row.

use treasure_core::TokenId;

use super::{Filled, Mass, Patterns, Result};

/// The look ahead of a partly masked sequence.
#[derive(Clone, Debug)]
pub struct Outlook {
    constraint: Patterns,
    parts: Vec<Mass>,
}

impl Filled {
    /// The look ahead from the scores at every masked position; `None` if they give no matching text a
    /// chance.
    pub fn outlook<'r>(&self, rows: &dyn Fn(usize) -> &'r [f32]) -> Result<Option<Outlook>> {
        let mut parts = Vec::with_capacity(self.lattices().len());
        for (lattice, (range, _)) in self.lattices().iter().zip(self.constraint().parts()) {
            match Mass::new(lattice, &|at| rows(range.start + at))? {
                Some(mass) => parts.push(mass),
                None => return Ok(None),
            }
        }
        // A mask outside all parts needs a token with a text that has a chance.
        let free = |&p: &usize| self.slots()[p].is_none() && self.constraint().part(p).is_none();
        let open = |p: usize| {
            let row = rows(p);
            self.constraint().anything().iter().any(|token| {
                row.get(token as usize).is_some_and(|&score| score > f32::NEG_INFINITY)
            })
        };
        if !(0..self.slots().len()).filter(free).all(open) {
            return Ok(None);
        }
        Ok(Some(Outlook { constraint: self.constraint().clone(), parts }))
    }
}

impl Outlook {
    /// The log-probabilities of all tokens at a mask given that the text matches, from its row. Returns the
    /// logarithm of the sum of the row itself.
    pub fn row(&mut self, position: usize, row: &[f32], out: &mut Vec<f32>) -> Result<f64> {
        out.clear();
        if let Some((part, at)) = self.constraint.part(position) {
            self.parts[part].marginals(at, row, out, |log_p| log_p as f32)?;
            return Ok(self.parts[part].log_sum(at));
        }
        let anything = self.constraint.anything();
        let legal = |token: usize| anything.contains(token as TokenId);
        let own =
            |(token, &score): (usize, &f32)| if legal(token) { score } else { f32::NEG_INFINITY };
        out.extend(row.iter().enumerate().map(own));
        let own = log_sum(row);
        let within = log_sum(out);
        out.iter_mut().for_each(|score| *score = (f64::from(*score) - within) as f32);
        Ok(own)
    }

    /// Places a legal token.
    pub fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        match self.constraint.part(position) {
            Some((part, at)) => self.parts[part].place(at, token),
            None => Ok(()),
        }
    }

    /// Whether the text has ended before a position.
    pub fn is_padding(&self, position: usize) -> bool {
        let part = self.constraint.part(position);
        part.is_some_and(|(part, at)| self.parts[part].is_padding(at))
    }
}

fn log_sum(row: &[f32]) -> f64 {
    let largest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = row.iter().map(|&score| (f64::from(score) - largest).exp()).sum();
    largest + sum.ln()
}
