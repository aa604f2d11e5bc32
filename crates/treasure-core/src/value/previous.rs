//! Previous-step value by argmax: the reward of the parent's own argmax completion, without the child's
//! token, so that siblings are equal until they are complete. An ablation of the paper (Table 2).

use super::{NextTime, Value};
use crate::{
    Flow, TokenId,
    population::{Node, Proposals, Run, Step},
};

/// The reward of the parent's argmax completion; the exact reward for complete children.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousArgmax;

impl Value for PreviousArgmax {
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
        let completions: Vec<Vec<TokenId>> = proposals
            .children
            .iter()
            .map(|child| match child.seq.complete() {
                Some(tokens) => tokens.to_vec(),
                None => {
                    let argmax = proposals.parents[child.parent].argmax.iter().copied();
                    parents[child.parent].seq.complete_with(argmax)
                }
            })
            .collect();
        run.problem.score(&completions)
    }
}
