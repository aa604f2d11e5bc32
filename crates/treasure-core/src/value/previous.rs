//! Previous-step value by argmax: the reward of the parent's own argmax completion, without the child's
//! token, so that siblings are equal until they are complete. An ablation of the paper (Table 2).

use super::{
    Taste, Value, Valued,
    appraise::{Completion, appraise},
};
use crate::{
    Context, Flow, Needs,
    population::{Node, Proposals},
};

/// The reward of the parent's argmax completion; the exact reward for complete children.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousArgmax {
    /// What the tree adds to the reward.
    pub taste: Taste,
}

impl Value for PreviousArgmax {
    fn needs(&self) -> Needs {
        self.taste.needs()
    }

    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>> {
        let completions = (proposals.children.iter())
            .map(|child| match child.seq.complete() {
                Some(tokens) => Completion { tokens: tokens.to_vec(), fills: 0.0 },
                None => {
                    let (parent, expanded) =
                        (&parents[child.parent], &proposals.parents[child.parent]);
                    let tokens = parent.seq.complete_with(expanded.argmax.iter().copied());
                    let fills: f64 = match &expanded.prediction {
                        Some(prediction) if !expanded.confidence.is_empty() => {
                            prediction.log_p(&tokens)
                        }
                        _ => expanded.confidence.iter().sum(),
                    };
                    // The text is the parent's: what the child committed is no part of it.
                    Completion { tokens, fills: fills + parent.log_p - child.log_p }
                }
            })
            .collect();
        appraise(cx, proposals, completions, self.taste, None)
    }
}
