//! Screened value: a cheap proxy reward ranks the children, only the best share is scored exactly.
//! Children screened out have value −∞ and are pruned; they cost no reward call.

use super::{NextTime, Value, resubstitute::completions};
use crate::{
    Flow, Width,
    population::{Node, Proposals, Run, Step},
};

/// Resubstitution behind a screen. The proxy is [`crate::Problem::with_proxy`]'s.
#[derive(Clone, Debug)]
pub struct Screened {
    /// The share of the children that is scored exactly, in (0, 1].
    pub share: f64,
    /// At least as many are scored exactly: the tree width.
    pub at_least: Width,
}

impl Value for Screened {
    fn needs_argmax(&self) -> bool {
        true
    }

    fn value(
        &self,
        step: &Step,
        run: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
        _: &NextTime<'_>,
    ) -> Flow<Vec<f64>> {
        let completions = completions(parents, proposals);
        let proxy = run.problem.score_proxy(&completions)?;
        let keep = ((self.share * completions.len() as f64).ceil() as usize)
            .max(self.at_least.at(step.index, step.steps))
            .min(completions.len());
        let mut order: Vec<usize> = (0..completions.len()).collect();
        // Ties by token rank, then by parent, as in the selection.
        order.sort_by(|&a, &b| {
            let rank = |i: usize| proposals.children[i].rank;
            proxy[b].total_cmp(&proxy[a]).then(rank(a).cmp(&rank(b))).then(a.cmp(&b))
        });
        order.truncate(keep);
        let chosen: Vec<_> = order.iter().map(|&i| completions[i].clone()).collect();
        let rewards = run.problem.score(&chosen)?;
        let mut values = vec![f64::NEG_INFINITY; completions.len()];
        for (i, reward) in order.into_iter().zip(rewards) {
            values[i] = reward;
        }
        Ok(values)
    }
}
