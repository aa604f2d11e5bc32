//! Iterative refinement (IterRef, Lee et al., 2025): on the way and at the end, mask some tokens again,
//! denoise them several times, and move by Multiple-Try Metropolis.
//!
//! Samples p·exp(λ r) in the end: with an exact denoiser that does not look at the time every round leaves
//! p(z)·exp(λ r̂(z)) of its state as it is, and at the end r̂ is the reward. The tries of a round share
//! what was masked, so given that they are independent of the current state, and the other tries serve as
//! the reference set of the acceptance: no second set is drawn, which halves the cost of the paper's rule.

mod chain;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AtOnce, Nominal, Search, plan_of};
use crate::{
    Key, Problem, Result,
    options::{at_least_one, positive, share},
    population::Node,
    run::Stepper,
};
use chain::Refined;

/// Renoising by Multiple-Try Metropolis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IterRef {
    /// Tries of a round.
    pub tries: usize,
    /// Rounds at every state that is refined on the way.
    pub rounds: usize,
    /// Events between states that are refined; 0 refines the end only.
    pub refine_every: usize,
    /// Rounds at the end.
    pub final_rounds: usize,
    /// The share of the generated tokens that a round masks again, at least one.
    pub share: f64,
    /// λ, which multiplies the reward.
    pub lambda: f64,
}

impl Default for IterRef {
    fn default() -> Self {
        Self { tries: 2, rounds: 1, refine_every: 0, final_rounds: 8, share: 0.25, lambda: 10.0 }
    }
}

impl IterRef {
    /// What happens in turn from a number of masks.
    fn moves(&self, masks: usize) -> Vec<Move> {
        let mut moves = Vec::new();
        for event in 1..=masks {
            moves.push(Move::Event);
            let refined = self.refine_every > 0 && event.is_multiple_of(self.refine_every);
            if refined && event < masks {
                moves.extend(std::iter::repeat_n(Move::Round, self.rounds));
            }
        }
        moves.extend(std::iter::repeat_n(Move::Round, self.final_rounds));
        moves
    }

    /// How many of the generated tokens a round masks again.
    fn masked_again(&self, generated: usize) -> usize {
        ((self.share * generated as f64).round() as usize).clamp(1, generated.max(1))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    Event,
    Round,
}

impl Search for IterRef {
    fn name(&self) -> &'static str {
        "iterref"
    }

    fn check(&self) -> Result<()> {
        at_least_one("tries", self.tries)?;
        share("share", self.share)?;
        positive("lambda", self.lambda)
    }

    fn width(&self) -> usize {
        self.tries
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let (mut passes, mut calls, mut generated) = (masks, 1usize, 0);
        for step in self.moves(masks) {
            match step {
                Move::Event => generated += 1,
                Move::Round => {
                    let events = self.masked_again(generated);
                    let own = if generated < masks { events + 1 } else { events };
                    passes = passes.saturating_add(self.tries.saturating_mul(own));
                    calls = calls.saturating_add(self.tries);
                }
            }
        }
        Nominal::new(passes, calls)
    }

    /// The tries of one round.
    fn at_once(&self, _: usize) -> AtOnce {
        AtOnce::completed(self.tries, 1)
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let start = problem.start();
        Ok(Box::new(Refined {
            options: self.clone(),
            moves: self.moves(start.n_masked()),
            done: 0,
            at: vec![Node::start(0, 0, start.clone())],
            value: None,
            best: None,
        }))
    }
}
