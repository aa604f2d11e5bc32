//! Parallel ancestral proposals: every mask is revealed or not, independently (Eqs. 2 and 3).
//!
//! Whether a mask is revealed and which token it becomes are two draws, both in f64: the float32
//! truncation of the reference samplers does not occur. The last step reveals what is left, so that a
//! schedule with α(0) < 1 ends complete as well.

use std::sync::Arc;

use super::{DrawBy, Propose, encode_parents, purpose};
use crate::{
    Context, Draw, Flow, TokenId, Want, Width,
    population::{Child, Expanded, Node, Proposals},
};

/// The times of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// T equal steps from 1 to 0.
    Uniform(usize),
    /// The FK reference's 1001 steps from 1 down to 10⁻⁵, whose last one reveals all that is left.
    Reference,
}

impl Grid {
    /// The number of steps.
    pub fn steps(self) -> usize {
        match self {
            Self::Uniform(steps) => steps,
            Self::Reference => 1001,
        }
    }

    /// The times before and after a step.
    pub fn times(self, index: usize) -> (f64, f64) {
        let time = |index: usize| match self {
            Self::Uniform(steps) => 1.0 - index as f64 / steps as f64,
            Self::Reference => 1.0 - index as f64 * ((1.0 - 1e-5) / 1000.0),
        };
        (time(index), time(index + 1).max(0.0))
    }
}

/// Parallel ancestral proposals.
#[derive(Clone, Debug)]
pub struct Parallel {
    /// The times.
    pub grid: Grid,
    /// Children per parent.
    pub candidates: Width,
    /// What draws depend on.
    pub draws: DrawBy,
}

/// The draws of one parent, candidate by candidate.
struct Reveals {
    draws: Vec<Draw>,
    per_candidate: Vec<usize>,
}

impl Parallel {
    fn reveals(&self, cx: &Context<'_, '_>, node: &Node) -> Reveals {
        let step = cx.step;
        let (t, s) = self.grid.times(step.index);
        let all = step.index + 1 == self.grid.steps();
        let chance = cx.problem.schedule().reveal_prob(s, t);
        let key = self.draws.key(cx.key, step.index, node.slot, &node.seq);
        let mut reveals = Reveals { draws: Vec::new(), per_candidate: Vec::new() };
        for candidate in 0..self.candidates.at(step.index, step.steps) as u64 {
            let key = key.fold(candidate);
            let before = reveals.draws.len();
            for position in node.seq.masked() {
                // Eq. (2): a mask is revealed with probability (α_s − α_t)/(1 − α_t) …
                let at = position as u64;
                if all || key.fold(purpose::REVEAL).fold(at).uniform() < chance {
                    // … and its token is drawn from the prediction.
                    let u = key.fold(purpose::TOKEN).fold(at).uniform();
                    reveals.draws.push(Draw { position, u, text: candidate as u32 });
                }
            }
            reveals.per_candidate.push(reveals.draws.len() - before);
        }
        reveals
    }
}

impl Propose for Parallel {
    fn steps(&self, _: usize) -> usize {
        self.grid.steps()
    }

    fn propose(&self, cx: &mut Context<'_, '_>, parents: &[Node]) -> Flow<Proposals> {
        let (t, s) = self.grid.times(cx.step.index);
        let confidence = cx.step.needs.confidence;
        let argmax = cx.step.needs.argmax || confidence;
        let encoded = encode_parents(cx, parents, &vec![t; parents.len()], None)?;
        let reveals: Vec<_> = parents.iter().map(|node| self.reveals(cx, node)).collect();
        let asked: Vec<usize> =
            (0..parents.len()).filter(|&i| argmax || !reveals[i].draws.is_empty()).collect();
        let wants: Vec<_> = asked
            .iter()
            .map(|&i| {
                let draws = &reveals[i].draws;
                (&encoded[i], Want { argmax, confidence, draws, ..Want::default() })
            })
            .collect();
        let mut answers = asked.iter().zip(cx.problem.read(&wants)?).peekable();
        let mut proposals = Proposals::default();
        for (parent, (node, encoded)) in parents.iter().zip(&encoded).enumerate() {
            let answer = answers
                .next_if(|(i, _)| **i == parent)
                .map(|(_, answer)| answer)
                .unwrap_or_default();
            let mut tokens = answer.draws.iter().copied();
            let mut legal = answer.draw_mass.iter();
            let mut draws = reveals[parent].draws.iter();
            for (rank, &count) in reveals[parent].per_candidate.iter().enumerate() {
                let mut placed: Vec<(usize, TokenId)> = draws
                    .by_ref()
                    .take(count)
                    .map(|draw| draw.position)
                    .zip(tokens.by_ref().take(count))
                    .collect();
                let legal: f64 = legal.by_ref().take(count).sum();
                let mut seq = (*node.seq).clone();
                for &(position, token) in &placed {
                    seq.reveal_in_place(position, token);
                }
                let reveal = (!placed.is_empty()).then(|| placed.remove(0));
                let seq = if reveal.is_some() { Arc::new(seq) } else { node.seq.clone() };
                proposals.children.push(Child {
                    seq,
                    // The next prediction is made where this step ends.
                    next_t: cx.step.needs.next_time.then_some(s),
                    rank,
                    reveal,
                    also: placed,
                    log_mass: match node.seq.n_masked() {
                        0 => 0.0,
                        _ => legal - (reveals[parent].per_candidate.len() as f64).ln(),
                    },
                    ..Child::carried(parent, node, s)
                });
                if node.seq.n_masked() == 0 {
                    break; // a complete parent has itself as its only child
                }
            }
            proposals.parents.push(Expanded::new(encoded, answer));
        }
        Ok(proposals)
    }

    fn is_last(&self, cx: &Context<'_, '_>, _: &Proposals) -> bool {
        cx.step.index + 1 == self.grid.steps()
    }
}
