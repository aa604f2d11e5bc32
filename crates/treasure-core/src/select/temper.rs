//! Tempering: a λ that rises to its full value (DAS, Kim et al., 2025), so that noisy early values do not
//! decide which particles live.
//!
//! Guarantee: potentials telescope, exp(λ_new r_new − λ_old r_old), and the last step has the full λ, so
//! the product is exp(λ r) of the final sequence whatever λ was on the way. A λ that depends on the
//! particles (adaptive) leaves the normaliser consistent; a fixed schedule leaves it unbiased.

use crate::{Result, Tempering, context::Step, resample::LogWeights};

/// How λ rises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temper {
    /// The rule.
    pub rule: Tempering,
    /// γ of [`Tempering::Rising`]; by default λ is reached at the last step, (1 + γ)^steps = 2.
    pub gamma: Option<f64>,
    /// The share of particles that [`Tempering::Adaptive`] keeps effective.
    pub share: f64,
}

impl Default for Temper {
    fn default() -> Self {
        Self { rule: Tempering::None, gamma: None, share: 0.5 }
    }
}

/// Halvings of the interval in which an adaptive λ is looked for.
const HALVINGS: usize = 40;

impl Temper {
    /// λ for a step. `before` is the λ that the particles were last weighed with, `log_weights` what
    /// their log-weights would be at a λ.
    pub(super) fn at(
        &self,
        lambda: f64,
        before: f64,
        step: &Step,
        log_weights: impl Fn(f64) -> Vec<f64>,
    ) -> Result<f64> {
        if step.last {
            return Ok(lambda);
        }
        match self.rule {
            Tempering::None => Ok(lambda),
            Tempering::Rising => {
                let done = (step.index + 1) as f64;
                let grown = match self.gamma {
                    Some(gamma) => (1.0 + gamma).powf(done),
                    None => (done / step.steps.max(1) as f64).exp2(),
                };
                Ok(lambda * (grown - 1.0).min(1.0))
            }
            Tempering::Adaptive => {
                let enough = |lambda: f64| -> Result<bool> {
                    let logs = log_weights(lambda);
                    let weights = LogWeights::new("tempered weights", &logs)?;
                    Ok(weights.effective_sample_size() >= self.share * logs.len() as f64)
                };
                if enough(lambda)? {
                    return Ok(lambda);
                }
                let (mut low, mut high) = (before, lambda);
                for _ in 0..HALVINGS {
                    let middle = f64::midpoint(low, high);
                    match enough(middle)? {
                        true => low = middle,
                        false => high = middle,
                    }
                }
                Ok(low)
            }
        }
    }
}
