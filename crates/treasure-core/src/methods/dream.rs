//! Dream's own sampler (Ye et al., 2025), under its own names: every step keeps a share of its masks'
//! tokens, by chance or the surest by one of three measures. Its one reward call scores the result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, base::samples, plan_of};
use crate::{
    Error, Key, Problem, Result, Sampler,
    options::{at_least_one, named, not_negative, share},
    run::Stepper,
};

named!(
    /// Which predicted tokens of a step Dream keeps.
    Alg, "alg", {
        /// Any, each with the chance of the schedule.
        #[default]
        Origin = "origin",
        /// The likeliest.
        MaskgitPlus = "maskgit_plus",
        /// Those furthest ahead of the next likeliest.
        TopkMargin = "topk_margin",
        /// Those of the rows with the least entropy.
        Entropy = "entropy",
    }
);

/// Dream's sampler. `max_new_tokens` is the length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dream {
    /// Steps; as many as tokens where nothing is said.
    pub steps: Option<usize>,
    /// Which tokens are kept.
    pub alg: Alg,
    /// Tokens are drawn at this temperature; 0 takes the likeliest.
    pub temperature: f64,
    /// The likeliest tokens with this mass are candidates.
    pub top_p: Option<f64>,
    /// So many of the likeliest tokens are candidates.
    pub top_k: Option<usize>,
    /// Which tokens are kept is drawn at this temperature.
    pub alg_temp: Option<f64>,
    /// The time at which the last step begins to reveal all.
    pub eps: f64,
}

impl Default for Dream {
    fn default() -> Self {
        Self {
            steps: None,
            alg: Alg::Origin,
            temperature: 0.0,
            top_p: None,
            top_k: None,
            alg_temp: None,
            eps: 1e-3,
        }
    }
}

impl Dream {
    /// The share of its masks that a step reveals; the last one reveals all. In f32, as the reference.
    pub fn share(&self, step: usize, steps: usize) -> f32 {
        if step + 1 >= steps {
            return 1.0;
        }
        // torch.linspace counts from the nearer end, with fused multiply-adds.
        let eps = self.eps as f32;
        let width = (eps - 1.0) / steps as f32;
        let time = |index: usize| match index < steps.div_ceil(2) {
            true => width.mul_add(index as f32, 1.0),
            false => (-width).mul_add((steps - index) as f32, eps),
        };
        1.0 - time(step + 1) / time(step)
    }

    /// How many of its masks a step reveals: the share, rounded down.
    pub fn tokens(&self, step: usize, steps: usize, masks: usize) -> usize {
        (masks as f32 * self.share(step, steps)) as usize
    }
}

impl Search for Dream {
    fn name(&self) -> &'static str {
        "dream"
    }

    fn check(&self) -> Result<()> {
        at_least_one("steps", self.steps.unwrap_or(1))?;
        not_negative("temperature", self.temperature)?;
        not_negative("alg temp", self.alg_temp.unwrap_or(0.0))?;
        share("top p", self.top_p.unwrap_or(1.0))?;
        at_least_one("top k", self.top_k.unwrap_or(1))?;
        if !(self.eps > 0.0 && self.eps < 1.0) {
            let (expected, got) = ("a number between 0 and 1".into(), self.eps.to_string());
            return Err(Error::Invalid { what: "eps", expected, got });
        }
        Ok(())
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        Nominal::new(self.steps.unwrap_or(masks).min(masks), 1)
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        Ok(samples(problem, Sampler::Dream(*self), 1))
    }
}
