//! True posterior value: the reward of the argmax completion of the child's own prediction.
//! One forward pass per child; it is kept and reused when that child is expanded, so it is asked for
//! at the time of that expansion.

use super::{
    Taste, Value, Valued,
    appraise::{Completion, appraise},
};
use crate::{
    Context, Flow, Needs, Want,
    population::{Node, Proposals},
};

/// The reward of the child completed by its own prediction; the exact reward for complete children.
#[derive(Clone, Copy, Debug, Default)]
pub struct Posterior {
    /// What the tree adds to the reward.
    pub taste: Taste,
}

impl Value for Posterior {
    fn needs(&self) -> Needs {
        Needs { next_time: true, ..Needs::default() }
    }

    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        _: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>> {
        let open: Vec<usize> = (0..proposals.children.len())
            .filter(|&i| proposals.children[i].seq.n_masked() > 0)
            .collect();
        let states: Vec<_> = open
            .iter()
            .map(|&i| {
                let child = &proposals.children[i];
                (child.seq.clone(), child.next_t.unwrap_or(child.t))
            })
            .collect();
        let encoded = cx.problem.encode(&states)?;
        let confidence = self.taste.prior != 0.0;
        let want = Want { argmax: true, confidence, ..Want::default() };
        let wants: Vec<_> = encoded.iter().map(|encoded| (encoded, want)).collect();
        let mut answers = cx.problem.read(&wants)?.into_iter();
        for (&i, encoded) in open.iter().zip(encoded) {
            proposals.children[i].encoded = Some(encoded);
        }
        let completions = (proposals.children.iter())
            .map(|child| match child.seq.complete() {
                Some(tokens) => Completion { tokens: tokens.to_vec(), fills: 0.0 },
                None => {
                    let answer = answers.next().unwrap_or_default();
                    Completion {
                        tokens: child.seq.complete_with(answer.argmax),
                        fills: answer.confidence.iter().sum(),
                    }
                }
            })
            .collect();
        appraise(cx, proposals, completions, self.taste, None)
    }
}
