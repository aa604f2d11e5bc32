//! Plain sampling from the model: ancestral (`base`) or first hitting (`fhs`). Its one reward call
//! scores the result.

use serde::Serialize;

use super::{Method, SamplerProposals, plan_of};
use crate::{
    Key, Observer, Outcome, Problem, Result, Sampler, population::Population, select::KeepAll,
    value::FinalReward,
};

/// One sample from the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Base {
    /// How it is drawn.
    #[serde(flatten)]
    pub sampler: Sampler,
}

impl Method for Base {
    fn name(&self) -> &'static str {
        match self.sampler {
            Sampler::Ancestral { .. } => "base",
            Sampler::FirstHitting => "fhs",
            Sampler::Greedy => "greedy",
        }
    }

    fn plan(&self) -> serde_json::Value {
        plan_of(self)
    }

    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        self.sampler.check()?;
        Population {
            size: 1,
            propose: SamplerProposals::new(self.sampler, 1),
            value: FinalReward,
            select: KeepAll,
        }
        .run(self.name(), self.plan(), problem, key, observer)
    }
}
