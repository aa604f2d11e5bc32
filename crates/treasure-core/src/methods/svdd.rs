//! SVDD (Li et al., 2024), posterior-mean variant: at every step draw M candidates from one prediction
//! and keep the one whose own prediction scores best.

use serde::Serialize;

use super::{Method, SamplerProposals, plan_of};
use crate::{
    Key, Observer, Outcome, Problem, Result, Sampler, options::at_least_one,
    population::Population, select::BestPerChain, value::Posterior,
};

/// Best candidate per chain and step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Svdd {
    /// M, the candidates per chain and step.
    pub particles: usize,
    /// Independent chains; the best one is the answer.
    pub chains: usize,
    /// What the chains run on.
    #[serde(flatten)]
    pub sampler: Sampler,
}

impl Default for Svdd {
    fn default() -> Self {
        Self { particles: 10, chains: 1, sampler: Sampler::Ancestral { steps: 1000 } }
    }
}

impl Method for Svdd {
    fn name(&self) -> &'static str {
        "svdd"
    }

    fn plan(&self) -> serde_json::Value {
        plan_of(self)
    }

    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        at_least_one("particles", self.particles)?;
        at_least_one("chains", self.chains)?;
        self.sampler.check()?;
        Population {
            size: self.chains,
            propose: SamplerProposals::new(self.sampler, self.particles),
            value: Posterior,
            select: BestPerChain,
        }
        .run(self.name(), self.plan(), problem, key, observer)
    }
}
