//! SVDD (Li et al., 2024), posterior-mean variant: at every step draw M candidates from one prediction
//! and keep the one whose own prediction scores best, as released, or draw one by exp(value/α).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, plan_since};
use crate::{
    Key, Problem, Result, Sampler,
    options::{at_least_one, not_negative},
    population::Population,
    propose::sampling,
    run::Stepper,
    select::BestPerChain,
    value::Posterior,
};

/// Best candidate per chain and step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Svdd {
    /// M, the candidates per chain and step.
    pub particles: usize,
    /// Independent chains; the best one is the answer.
    pub chains: usize,
    /// What the chains run on.
    #[serde(flatten)]
    pub sampler: Sampler,
    /// α: a candidate is drawn by exp(value/α); 0 takes the best.
    #[serde(default)]
    pub alpha: f64,
}

impl Default for Svdd {
    fn default() -> Self {
        Self { particles: 10, chains: 1, sampler: Sampler::Ancestral { steps: 1000 }, alpha: 0.0 }
    }
}

impl Search for Svdd {
    fn name(&self) -> &'static str {
        "svdd"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        at_least_one("chains", self.chains)?;
        not_negative("alpha", self.alpha)?;
        self.sampler.check()
    }

    fn width(&self) -> usize {
        self.particles
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let steps = self.sampler.passes(masks);
        let children = self.particles.saturating_mul(self.chains).saturating_mul(steps);
        Nominal::new(children, children)
    }

    fn plan(&self) -> Value {
        plan_since(self, &["alpha"])
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let parts = Population {
            size: self.chains,
            propose: sampling(self.sampler, self.particles),
            value: Box::new(Posterior::default()),
            select: Box::new(BestPerChain { alpha: self.alpha }),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
