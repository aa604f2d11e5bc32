//! Plain sampling from the model: ancestral (`base`) or first hitting (`fhs`). Its one reward call
//! scores the result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, plan_of};
use crate::{
    Key, Problem, Result, Sampler, options::at_least_one, population::Population,
    propose::sampling, run::Stepper, select::KeepAll, value::FinalReward,
};

/// One ancestral sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Base {
    /// T.
    pub steps: usize,
}

impl Default for Base {
    fn default() -> Self {
        Self { steps: 1000 }
    }
}

/// One first-hitting sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fhs {}

/// `size` independent samples, scored at their end.
pub(super) fn samples(problem: &Problem<'_>, sampler: Sampler, size: usize) -> Box<dyn Stepper> {
    let parts = Population {
        size,
        propose: sampling(sampler, 1),
        value: Box::new(FinalReward),
        select: Box::new(KeepAll),
    };
    Box::new(parts.begin(problem.start()))
}

impl Search for Base {
    fn name(&self) -> &'static str {
        "base"
    }

    fn check(&self) -> Result<()> {
        at_least_one("steps", self.steps)
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        Nominal::new(self.steps.min(masks), 1)
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        Ok(samples(problem, Sampler::Ancestral { steps: self.steps }, 1))
    }
}

impl Search for Fhs {
    fn name(&self) -> &'static str {
        "fhs"
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        Nominal::new(masks, 1)
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        Ok(samples(problem, Sampler::FirstHitting, 1))
    }
}
