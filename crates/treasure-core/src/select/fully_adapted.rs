//! Fully adapted resampling: parents are drawn by what all their children promise together, then a child
//! of each by its own share (the derivative-free form of Pani et al., 2025).
//!
//! Guarantees: with children that stand for their parent's whole law the normaliser is unbiased for
//! E exp(λ r) and the weighted particles converge to p·exp(λ r)/Z. The last step keeps every child with
//! its weight: what it draws has the law of parent-then-child, and the best is never lost.

use super::{Candidates, Kept, Select, Selection, temper::Temper};
use crate::{
    Context, Flow, PruneReason, Resampling,
    population::Weight,
    propose::purpose,
    resample::{LogWeights, draw, draw_one},
};

/// Resampling by the promise of all children.
#[derive(Clone, Copy, Debug)]
pub struct FullyAdapted {
    /// Multiplies the reward.
    pub lambda: f64,
    /// How parents are drawn.
    pub resampling: Resampling,
    /// Resample only when the effective sample size falls below this share of the particles.
    pub ess: Option<f64>,
    /// How λ rises.
    pub temper: Temper,
}

/// log Σ exp.
fn log_sum_exp(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    match top.is_finite() {
        true => top + logs.map(|log| (log - top).exp()).sum::<f64>().ln(),
        false => top,
    }
}

impl Select for FullyAdapted {
    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        let step = cx.step;
        let children = &from.proposals.children;
        let mut families: Vec<Vec<usize>> = vec![Vec::new(); from.parents.len()];
        for child in from.scored() {
            families[children[child].parent].push(child);
        }
        let value = |child: usize| from.value(child).unwrap_or(f64::NEG_INFINITY);
        // log a = log μ(v) + λ r̂(z ∪ v), one per child.
        let promise = |child: usize, lambda: f64| children[child].log_mass + lambda * value(child);
        // log Σ a − λ r̂(z): before the draw, so that parents can be resampled first.
        let log_weights = |lambda: f64| -> Vec<f64> {
            (from.parents.iter().zip(&families))
                .map(|(node, family)| {
                    let all = family.iter().map(|&child| promise(child, lambda));
                    node.weight.log_weight + log_sum_exp(all) - node.weight.log_product
                })
                .collect()
        };
        let before = from.parents.first().map_or(0.0, |node| node.weight.lambda);
        let lambda = self.temper.at(self.lambda, before, &step, log_weights)?;
        let weights = LogWeights::new("weights of parents", &log_weights(lambda))?;
        let ess = Some(weights.effective_sample_size());
        let after = |child: usize, log_weight: f64| Weight {
            reward: Some(value(child)),
            log_product: lambda * value(child),
            log_weight,
            lambda,
        };
        if step.last {
            *cx.log_normalizer.get_or_insert(0.0) += weights.log_mean();
            let kept = families.iter().flatten().enumerate().map(|(slot, &child)| {
                let before = from.parents[children[child].parent].weight;
                let weight = before.log_weight + promise(child, lambda) - before.log_product;
                Kept { child, slot, weight: after(child, weight) }
            });
            return Ok(Selection { kept: kept.collect(), ess, ..Selection::default() });
        }
        let particles = from.parents.len() as f64;
        let resampled =
            self.ess.is_none_or(|share| weights.effective_sample_size() < share * particles);
        let ancestors = match resampled {
            true => {
                *cx.log_normalizer.get_or_insert(0.0) += weights.log_mean();
                let key = cx.key.fold(purpose::RESAMPLE).fold(step.index as u64);
                draw(self.resampling, &weights, key)
            }
            false => (0..from.parents.len()).collect(),
        };
        let key = cx.key.fold(purpose::CHOICE).fold(step.index as u64);
        let logs = log_weights(lambda);
        let mut kept = Vec::with_capacity(ancestors.len());
        for (ancestor, node) in ancestors.into_iter().zip(from.parents) {
            let family = &families[ancestor];
            let promises: Vec<f64> = family.iter().map(|&child| promise(child, lambda)).collect();
            let own = LogWeights::new("promises of children", &promises)?;
            let child = family[draw_one(&own, key.fold(node.slot as u64))];
            let log_weight = if resampled { 0.0 } else { logs[ancestor] };
            kept.push(Kept { child, slot: node.slot, weight: after(child, log_weight) });
        }
        let fates = (0..children.len()).map(|child| (child, PruneReason::Resampled)).collect();
        Ok(Selection { kept, fates, ess, resampled })
    }
}
