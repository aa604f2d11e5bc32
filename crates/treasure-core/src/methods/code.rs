//! CoDe (Singh et al., 2025): N copies run alone for a block of steps, then the one whose prediction
//! scores best takes every place. A block of one step is close to SVDD, a block of all steps is best of N.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, plan_of};
use crate::{
    Key, Problem, Result, Sampler, options::at_least_one, population::Population,
    propose::sampling, run::Stepper, select::BestPerBlock, value::Posterior,
};

/// Best copy per block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Code {
    /// N.
    pub particles: usize,
    /// Steps per block.
    pub code_block: usize,
    /// What the copies run on.
    #[serde(flatten)]
    pub sampler: Sampler,
}

impl Default for Code {
    fn default() -> Self {
        Self { particles: 4, code_block: 20, sampler: Sampler::Ancestral { steps: 1000 } }
    }
}

impl Search for Code {
    fn name(&self) -> &'static str {
        "code"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        at_least_one("code block", self.code_block)?;
        self.sampler.check()
    }

    fn width(&self) -> usize {
        self.particles
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let steps = self.sampler.steps(masks);
        let passes = self.particles.saturating_mul(self.sampler.passes(masks));
        let blocks = steps.div_ceil(self.code_block.max(1));
        Nominal::new(passes, self.particles.saturating_mul(blocks))
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let parts = Population {
            size: self.particles,
            propose: sampling(self.sampler, 1),
            value: Box::new(Posterior::default()),
            select: Box::new(BestPerBlock { block: self.code_block }),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
