//! True posterior value: the reward of the argmax completion of the child's own prediction.
//! One forward pass per child; it is kept and reused when that child is expanded, so it is asked for
//! at the time of that expansion.

use super::{NextTime, Value};
use crate::{
    Flow, TokenId, Want,
    population::{Node, Proposals, Run, Step},
};

/// The reward of the child completed by its own prediction; the exact reward for complete children.
#[derive(Clone, Copy, Debug, Default)]
pub struct Posterior;

impl Value for Posterior {
    fn value(
        &self,
        _: &Step,
        run: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
        next_time: &NextTime<'_>,
    ) -> Flow<Vec<f64>> {
        let open: Vec<usize> = (0..proposals.children.len())
            .filter(|&i| proposals.children[i].seq.n_masked() > 0)
            .collect();
        let states: Vec<_> = open
            .iter()
            .map(|&i| {
                let child = &proposals.children[i];
                (child.seq.clone(), next_time(run, child, parents[child.parent].slot))
            })
            .collect();
        let encoded = run.problem.encode(&states)?;
        let want = Want { argmax: true, ..Want::default() };
        let wants: Vec<_> = encoded.iter().map(|encoded| (encoded, want)).collect();
        let mut answers = run.problem.read(&wants)?.into_iter();
        for (&i, encoded) in open.iter().zip(encoded) {
            proposals.children[i].encoded = Some(encoded);
        }
        let completions: Vec<Vec<TokenId>> = proposals
            .children
            .iter()
            .map(|child| match child.seq.complete() {
                Some(tokens) => tokens.to_vec(),
                None => child.seq.complete_with(answers.next().unwrap_or_default().argmax),
            })
            .collect();
        run.problem.score(&completions)
    }
}
