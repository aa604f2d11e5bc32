//! Best of N: N independent samples, the one with the highest reward.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, base::samples, plan_of};
use crate::{Key, Problem, Result, Sampler, options::at_least_one, run::Stepper};

/// The best of N samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestOfN {
    /// N.
    pub particles: usize,
    /// How each is drawn.
    #[serde(flatten)]
    pub sampler: Sampler,
}

impl Default for BestOfN {
    fn default() -> Self {
        Self { particles: 4, sampler: Sampler::Ancestral { steps: 1000 } }
    }
}

impl Search for BestOfN {
    fn name(&self) -> &'static str {
        "bon"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        self.sampler.check()
    }

    fn width(&self) -> usize {
        self.particles
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let passes = self.sampler.passes(masks);
        Nominal::new(self.particles.saturating_mul(passes), self.particles)
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        Ok(samples(problem, self.sampler, self.particles))
    }
}
