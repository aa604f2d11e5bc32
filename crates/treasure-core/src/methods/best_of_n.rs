//! Best of N: N independent samples, the one with the highest reward.

use serde::Serialize;

use super::{Method, SamplerProposals, plan_of};
use crate::{
    Key, Observer, Outcome, Problem, Result, Sampler, options::at_least_one,
    population::Population, select::KeepAll, value::FinalReward,
};

/// The best of N samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BestOfN {
    /// N.
    pub particles: usize,
    /// How each is drawn.
    #[serde(flatten)]
    pub sampler: Sampler,
}

impl Method for BestOfN {
    fn name(&self) -> &'static str {
        "bon"
    }

    fn plan(&self) -> serde_json::Value {
        plan_of(self)
    }

    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        at_least_one("particles", self.particles)?;
        self.sampler.check()?;
        Population {
            size: self.particles,
            propose: SamplerProposals::new(self.sampler, 1),
            value: FinalReward,
            select: KeepAll,
        }
        .run(self.name(), self.plan(), problem, key, observer)
    }
}
