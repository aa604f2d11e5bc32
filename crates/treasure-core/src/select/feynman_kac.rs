//! Feynman–Kac steering: weigh particles by potentials of their rewards and resample by weight
//! (Singhal et al., 2025).
//!
//! Guarantees: weights live in log space; the product of a particle's potentials is exp(λ r) of its
//! final sequence, so the normaliser is unbiased for E exp(λ r) and the weighted particles converge to
//! the target p·exp(λ r)/Z; the last step weighs but does not resample, so the best is never lost. λ may
//! rise on the way ([`Temper`]).

use super::{Candidates, Kept, Select, Selection, keep_all::keep_all, temper::Temper};
use crate::{
    Context, Flow, Potential, Resampling, Tempering,
    context::Step,
    population::Weight,
    propose::purpose,
    resample::{LogWeights, draw},
};

/// Resampling by Feynman–Kac potentials.
#[derive(Clone, Copy, Debug)]
pub struct FeynmanKac {
    /// Multiplies the reward; the paper's λ is its inverse.
    pub lambda: f64,
    /// The potential.
    pub potential: Potential,
    /// Weigh every so many steps, and at the last.
    pub every: usize,
    /// How particles are drawn.
    pub resampling: Resampling,
    /// Resample only when the effective sample size falls below this share of the particles.
    pub ess: Option<f64>,
    /// How λ rises.
    pub temper: Temper,
}

impl FeynmanKac {
    /// A particle's weight after a new value, at the step's λ.
    fn weigh(&self, before: Weight, value: f64, lambda: f64, last: bool) -> Weight {
        let (reward, log_potential) = if last {
            // What is missing for the product to be exp(λ r) of the final sequence.
            (value, lambda * value - before.log_product)
        } else {
            match self.potential {
                Potential::Diff if self.temper.rule != Tempering::None => {
                    (value, lambda * value - before.log_product)
                }
                Potential::Diff => (value, lambda * (value - before.reward.unwrap_or(0.0))),
                Potential::Max => {
                    let reward = before.reward.map_or(value, |reward| reward.max(value));
                    (reward, lambda * reward)
                }
                Potential::Add => {
                    let reward = before.reward.unwrap_or(0.0) + value;
                    (reward, lambda * reward)
                }
                Potential::Rt => (value, lambda * value),
            }
        };
        Weight {
            reward: Some(reward),
            log_product: before.log_product + log_potential,
            log_weight: before.log_weight + log_potential,
            lambda,
        }
    }
}

impl Select for FeynmanKac {
    fn needs_values(&self, step: &Step) -> bool {
        step.last || (step.index + 1).is_multiple_of(self.every)
    }

    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        let step = cx.step;
        let mut selection = keep_all(from);
        if from.values.is_none() {
            return Ok(selection);
        }
        let value = |child: usize| from.value(child).unwrap_or(f64::NEG_INFINITY);
        let before = selection.kept.first().map_or(0.0, |kept| kept.weight.lambda);
        let lambda = self.temper.at(self.lambda, before, &step, |lambda| {
            let weigh = |kept: &Kept| self.weigh(kept.weight, value(kept.child), lambda, false);
            selection.kept.iter().map(|kept| weigh(kept).log_weight).collect()
        })?;
        for kept in &mut selection.kept {
            kept.weight = self.weigh(kept.weight, value(kept.child), lambda, step.last);
        }
        let log_weights: Vec<f64> =
            selection.kept.iter().map(|kept| kept.weight.log_weight).collect();
        let weights = LogWeights::new("Feynman–Kac potentials", &log_weights)?;
        selection.ess = Some(weights.effective_sample_size());
        let enough = self.ess.is_some_and(|share| {
            weights.effective_sample_size() >= share * log_weights.len() as f64
        });
        if step.last {
            *cx.log_normalizer.get_or_insert(0.0) += weights.log_mean();
            return Ok(selection);
        }
        if enough {
            return Ok(selection);
        }
        *cx.log_normalizer.get_or_insert(0.0) += weights.log_mean();
        let key = cx.key.fold(purpose::RESAMPLE).fold(step.index as u64);
        let ancestors = draw(self.resampling, &weights, key);
        let spent = |weight| Weight { log_weight: 0.0, ..weight };
        selection.resample(&ancestors, from.proposals.children.len(), spent);
        Ok(selection)
    }
}
