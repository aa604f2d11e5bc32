//! LLaDA's own sampler (Nie et al., 2025), under its own names: block after block, the surest tokens of
//! every step are kept and the others masked again. Its one reward call scores the result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, base::samples, plan_of};
use crate::{
    Key, Problem, Result, Sampler,
    options::{named, not_negative},
    propose::Pace,
    run::Stepper,
};

named!(
    /// Which predicted tokens of a step LLaDA keeps.
    Remasking, "remasking", {
        /// The likeliest.
        #[default]
        LowConfidence = "low_confidence",
        /// Any, with equal chance.
        Random = "random",
    }
);

/// LLaDA's sampler. `gen_length` is the length, `block_length` the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Llada {
    /// Steps in all; a token a step where nothing is said.
    pub steps: Option<usize>,
    /// Tokens of a block; one block where nothing is said.
    pub block: Option<usize>,
    /// Tokens are drawn at this temperature; 0 takes the likeliest.
    pub temperature: f64,
    /// Which tokens are kept.
    pub remasking: Remasking,
    /// Never place the end of text.
    pub logits_eos_inf: bool,
    /// Place an end of text or of turn last: neither counts as sure.
    pub confidence_eos_eot_inf: bool,
}

impl Llada {
    /// Its blocks and steps.
    pub fn pace(&self) -> Pace {
        Pace { block: self.block, steps: self.steps }
    }

    /// Refuses blocks and steps that do not share out so many tokens evenly, as the reference does.
    pub fn fits(&self, tokens: usize) -> Result<()> {
        self.pace().fits(tokens)
    }
}

impl Search for Llada {
    fn name(&self) -> &'static str {
        "llada"
    }

    fn check(&self) -> Result<()> {
        self.pace().check()?;
        not_negative("temperature", self.temperature)
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        Nominal::new(self.pace().steps(masks).min(masks), 1)
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        Ok(samples(problem, Sampler::Llada(*self), 1))
    }
}
