//! CoDe (Singh et al., 2025): N copies run alone for a block of steps, then the one whose prediction
//! scores best takes every place. A block of one step is close to SVDD, a block of all steps is best of N.

use serde::Serialize;

use super::{Method, SamplerProposals, plan_of};
use crate::{
    Key, Observer, Outcome, Problem, Result, Sampler, options::at_least_one,
    population::Population, select::BestPerBlock, value::Posterior,
};

/// Best copy per block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Code {
    /// N.
    pub particles: usize,
    /// Steps per block.
    pub block: usize,
    /// What the copies run on.
    #[serde(flatten)]
    pub sampler: Sampler,
}

impl Default for Code {
    fn default() -> Self {
        Self { particles: 4, block: 20, sampler: Sampler::Ancestral { steps: 1000 } }
    }
}

impl Method for Code {
    fn name(&self) -> &'static str {
        "code"
    }

    fn plan(&self) -> serde_json::Value {
        plan_of(self)
    }

    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        at_least_one("particles", self.particles)?;
        at_least_one("block", self.block)?;
        self.sampler.check()?;
        Population {
            size: self.particles,
            propose: SamplerProposals::new(self.sampler, 1),
            value: Posterior,
            select: BestPerBlock { block: self.block },
        }
        .run(self.name(), self.plan(), problem, key, observer)
    }
}
