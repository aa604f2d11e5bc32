//! True posterior value: the reward of the argmax completion of the child's own prediction.
//! One forward pass per child; it is kept and reused when that child is expanded, so it is asked for
//! at the time of that expansion.

use super::{
    Taste, Value, Valued,
    appraise::{Completion, appraise},
    encode_children,
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
        encode_children(cx, proposals)?;
        let confidence = self.taste.prior != 0.0;
        let want = Want { argmax: true, confidence, ..Want::default() };
        let wants: Vec<_> = (proposals.children.iter())
            .filter(|child| child.seq.n_masked() > 0)
            .filter_map(|child| Some((child.encoded.as_ref()?, want)))
            .collect();
        let mut answers = cx.problem.read(&wants)?.into_iter();
        let completions = (proposals.children.iter())
            .map(|child| match child.seq.complete() {
                Some(tokens) => Completion { tokens: tokens.to_vec(), fills: 0.0 },
                None => {
                    let answer = answers.next().unwrap_or_default();
                    let fills = match &answer.prediction {
                        Some(_) if !confidence => 0.0,
                        Some(prediction) => {
                            prediction.log_p(&child.seq.complete_with(answer.argmax.clone()))
                        }
                        None => answer.confidence.iter().sum(),
                    };
                    Completion { tokens: child.seq.complete_with(answer.argmax), fills }
                }
            })
            .collect();
        appraise(cx, proposals, completions, self.taste, None)
    }
}
