//! The resampler of the FK reference code, emulated with its quirks.
//!
//! Differs from [`super::FeynmanKac`] on purpose: float32 weights clamped to [0, 10¹⁰], NaN → 0 and
//! all-zero → uniform, rewards that start at 0, a multinomial draw at the last step too, so that the
//! best particle may be lost, and an answer by the running reward. Only the method `FkReference` uses it.

use super::{Candidates, Select, Selection, keep_all::keep_all};
use crate::{
    Context, Flow, Potential, Resampling,
    context::Step,
    population::{Node, Weight},
    propose::purpose,
    resample::{LogWeights, draw},
};

/// The reference's resampler.
#[derive(Clone, Copy, Debug)]
pub struct FkReferenceResampler {
    /// Multiplies the reward.
    pub lambda: f64,
    /// The potential.
    pub potential: Potential,
    /// Resample at the steps `every − 1, 2·every − 1, …` and at the last.
    pub every: usize,
}

impl FkReferenceResampler {
    /// The new population reward and the float32 weight.
    fn weigh(&self, before: Weight, value: f64, last: bool) -> (f64, f32) {
        let lambda = self.lambda as f32;
        let stored = before.reward.unwrap_or(0.0);
        let value = match self.potential {
            Potential::Max => value.max(stored),
            Potential::Add => value + stored,
            Potential::Diff | Potential::Rt => value,
        };
        let mut weight = match self.potential {
            Potential::Diff => (lambda * (value as f32 - stored as f32)).exp(),
            Potential::Max | Potential::Add | Potential::Rt => (lambda * value as f32).exp(),
        };
        if last && self.potential != Potential::Diff {
            weight /= (before.log_product as f32).exp();
        }
        let weight = if weight.is_nan() { 0.0 } else { weight.clamp(0.0, 1e10) };
        (value, weight)
    }
}

impl Select for FkReferenceResampler {
    /// The running reward of the population: a maximum under `max`, a sum under `add`.
    fn standing(&self, node: &Node) -> Option<f64> {
        node.weight.reward
    }

    fn needs_values(&self, step: &Step) -> bool {
        step.last || (step.index + 1).is_multiple_of(self.every) || step.index + 1 == step.steps
    }

    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        let step = cx.step;
        let mut selection = keep_all(from);
        if from.values.is_none() {
            return Ok(selection);
        }
        let mut weights = Vec::with_capacity(selection.kept.len());
        for kept in &mut selection.kept {
            let value = from.value(kept.child).unwrap_or(f64::NEG_INFINITY);
            let (reward, weight) = self.weigh(kept.weight, value, step.last);
            kept.weight.reward = Some(reward);
            weights.push(weight);
        }
        if weights.iter().all(|&weight| weight == 0.0) {
            cx.note("fk reference weights", || {
                format!(
                    "all {} weights were 0 at step {}; taken as equal",
                    weights.len(),
                    step.index
                )
            })?;
            weights.fill(1.0);
        }
        // As the reference: the repair comes first, so that the product of potentials stays positive.
        for (kept, &weight) in selection.kept.iter_mut().zip(&weights) {
            kept.weight.log_product += f64::from(weight).ln();
        }
        let logs: Vec<f64> = weights.iter().map(|&weight| f64::from(weight).ln()).collect();
        let weights = LogWeights::new("FK reference weights", &logs)?;
        selection.ess = Some(weights.effective_sample_size());
        let key = cx.key.fold(purpose::RESAMPLE).fold(step.index as u64);
        let ancestors = draw(Resampling::Multinomial, &weights, key);
        selection.resample(&ancestors, from.proposals.children.len(), |weight| weight);
        Ok(selection)
    }
}
