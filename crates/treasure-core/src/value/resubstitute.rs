//! Resubstitution value: fill every mask with its likeliest token and score once (Alg. 2).
//! Costs no model call. Off from the expected reward by at most Theorem 2's bound.

use super::{NextTime, Value};
use crate::{
    Flow, TokenId,
    population::{Node, Proposals, Run, Step, resubstitute},
};

/// The reward of the child filled from its parent's prediction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resubstitute;

/// The completions that resubstitution scores, one per child.
pub(crate) fn completions(parents: &[Node], proposals: &Proposals) -> Vec<Vec<TokenId>> {
    proposals
        .children
        .iter()
        .map(|child| {
            let (parent, expanded) = (&parents[child.parent], &proposals.parents[child.parent]);
            resubstitute(&parent.seq, &child.seq, &expanded.argmax)
        })
        .collect()
}

impl Value for Resubstitute {
    fn needs_argmax(&self) -> bool {
        true
    }

    fn value(
        &self,
        _: &Step,
        run: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
        _: &NextTime<'_>,
    ) -> Flow<Vec<f64>> {
        run.problem.score(&completions(parents, proposals))
    }
}

/// The reward of finished children; for selections that ask for values at the last step only.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinalReward;

impl Value for FinalReward {
    fn value(
        &self,
        _: &Step,
        run: &mut Run<'_, '_>,
        _: &[Node],
        proposals: &mut Proposals,
        _: &NextTime<'_>,
    ) -> Flow<Vec<f64>> {
        let complete: Vec<_> = (proposals.children.iter())
            .filter_map(|child| child.seq.complete().map(<[TokenId]>::to_vec))
            .collect();
        run.problem.score(&complete)
    }
}
