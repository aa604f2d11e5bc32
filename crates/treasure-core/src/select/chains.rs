//! Chains whose number falls (DSearch, Li et al., 2025): the best child of every chain lives on, then only
//! the best chains do, or the worst are replaced by copies of the others.

use super::{BestPerChain, Candidates, Kept, Select, Selection};
use crate::{
    Context, Flow, PruneReason, Width,
    propose::purpose,
    resample::{LogWeights, draw_one},
};

/// Keeps c(·) chains.
#[derive(Clone, Debug)]
pub struct BestChains {
    /// c(·), the chains kept after a step.
    pub keep: Width,
    /// Replace this share of the chains, the worst, by copies of the rest drawn by exp(value).
    pub replace: f64,
}

impl Select for BestChains {
    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        let step = cx.step;
        let mut selection = BestPerChain::default().select(cx, from)?;
        let mut order: Vec<Kept> = selection.kept.clone();
        order.sort_by(|a, b| from.better(a.child, b.child));
        order.truncate(self.keep.at(step.index, step.steps));
        // The last population stays as it is: its best member is the answer.
        let worst = if step.last { 0 } else { (self.replace * order.len() as f64) as usize };
        let stay = order.len().saturating_sub(worst);
        let (best, replaced) = order.split_at_mut(stay);
        if !best.is_empty() && !replaced.is_empty() {
            let values: Vec<f64> = best.iter().filter_map(|kept| from.value(kept.child)).collect();
            let weights = LogWeights::new("values of chains", &values)?;
            let key = cx.key.fold(purpose::RESAMPLE).fold(step.index as u64);
            for kept in replaced {
                let chosen = draw_one(&weights, key.fold(kept.slot as u64));
                selection.fates.push((kept.child, PruneReason::Resampled));
                kept.child = best[chosen].child;
                selection.resampled = true;
            }
        }
        order.sort_by_key(|kept| kept.slot);
        selection.kept = order;
        Ok(selection)
    }
}
