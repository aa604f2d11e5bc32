//! Remask and refine: from a finished text, mask a share of it again, search anew from there, and keep
//! what is better; the only kind of search that repairs an early mistake.
//!
//! Starts from the text that the problem was given ([`Problem::with_given`]), or else writes one first.
//! Greedy: never ends below its beginning, and where nothing better is found the given tokens come back.
//! Metropolis: with an exact denoiser that does not look at the time, every round leaves p·exp(λ r) as it
//! is, since positions are drawn uniformly and in a number that does not depend on the text, and what
//! first hitting puts there is a draw of p given the rest; a choice of the worst positions would break
//! that, and is refused. Tokens of the start state are never touched.

mod inner;
mod rounds;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use inner::Inner;

use super::{AtOnce, Fhs, Method, Nominal, Search, Treasure, plan_of};
use crate::{
    Error, Key, Problem, Result,
    options::{named, positive, share},
    run::Stepper,
};
use rounds::Rounds;

named!(
    /// Which positions a round of refinement masks again.
    Pick, "pick", {
        /// Any, with equal chance.
        #[default]
        Uniform = "uniform",
        /// Those where the likeliest token, given all others, would gain most: one forward pass and
        /// one reward call a position.
        Worst = "worst",
    }
);

named!(
    /// Which text a round of refinement goes on with.
    Accept, "accept", {
        /// The better one.
        #[default]
        Greedy = "greedy",
        /// The new one with probability min(1, exp(λ(r′ − r))).
        Metropolis = "metropolis",
    }
);

/// Rounds of masking again and searching anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refine {
    /// R.
    pub rounds: usize,
    /// The share of the text that the first round masks again.
    pub share_from: f64,
    /// The share that the last round masks again.
    pub share_to: f64,
    /// Which positions.
    pub pick: Pick,
    /// Which text goes on.
    pub accept: Accept,
    /// λ of Metropolis.
    pub lambda: f64,
    /// The method that searches anew, by name or with its options; by default `treasure`, and `fhs`
    /// under Metropolis, which takes no other.
    pub inner: Option<Inner>,
}

impl Default for Refine {
    fn default() -> Self {
        Self {
            rounds: 4,
            share_from: 0.5,
            share_to: 0.1,
            pick: Pick::Uniform,
            accept: Accept::Greedy,
            lambda: 10.0,
            inner: None,
        }
    }
}

impl Refine {
    /// How many of the positions that may change a round masks again.
    fn masked_again(&self, round: usize, free: usize) -> usize {
        let way = if self.rounds > 1 { round as f64 / (self.rounds - 1) as f64 } else { 0.0 };
        let share = self.share_from + (self.share_to - self.share_from) * way;
        ((share * free as f64).round() as usize).clamp(1, free.max(1))
    }

    /// The method that searches anew.
    fn method(&self) -> Method {
        match (&self.inner, self.accept) {
            (Some(Inner(method)), _) => (**method).clone(),
            (None, Accept::Greedy) => Treasure::default().into(),
            (None, Accept::Metropolis) => Fhs {}.into(),
        }
    }
}

impl Search for Refine {
    fn name(&self) -> &'static str {
        "refine"
    }

    fn check(&self) -> Result<()> {
        share("share from", self.share_from)?;
        share("share to", self.share_to)?;
        positive("lambda", self.lambda)?;
        let invalid = |what, expected: &str, got: &str| {
            Err(Error::Invalid { what, expected: expected.into(), got: got.into() })
        };
        let method = self.method();
        if let Method::Refine(_) = method {
            return invalid("inner", "a method that starts from masks", "refine");
        }
        if self.accept == Accept::Metropolis {
            if self.pick != Pick::Uniform {
                return invalid("pick", "uniform with metropolis", self.pick.name());
            }
            if !matches!(method, Method::Fhs(_)) {
                return invalid("inner", "fhs with metropolis", method.name());
            }
        }
        method.search().check()
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let method = self.method();
        let mut all = method.search().nominal_cost(masks);
        for round in 0..self.rounds {
            let again = self.masked_again(round, masks);
            let own = method.search().nominal_cost(again);
            let looks = if self.pick == Pick::Worst { masks as u64 } else { 0 };
            all.nfe = all.nfe.saturating_add(own.nfe).saturating_add(looks);
            all.reward_calls =
                all.reward_calls.saturating_add(own.reward_calls).saturating_add(looks);
        }
        all
    }

    /// One round at a time, of which the first is the largest.
    fn at_once(&self, masks: usize) -> AtOnce {
        self.method().search().at_once(masks)
    }

    fn is_sampler(&self) -> bool {
        self.accept == Accept::Metropolis
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        Ok(Box::new(Rounds::new(self.clone(), self.method(), problem)))
    }
}
