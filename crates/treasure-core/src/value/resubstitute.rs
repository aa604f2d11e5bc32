//! Resubstitution value: fill every mask with its likeliest token and score once (Alg. 2).
//! Costs no model call. Off from the expected reward by at most Theorem 2's bound.

use super::{
    Taste, Value, Valued,
    appraise::{Completion, appraise},
    plain,
};
use crate::{
    Context, Flow, Needs, Result, TokenId, Width,
    population::{Child, Node, Proposals},
};

/// The reward of the child filled from its parent's prediction.
#[derive(Clone, Debug, Default)]
pub struct Resubstitute {
    /// What the tree adds to the reward.
    pub taste: Taste,
    /// The tree width, where the selection keeps the best whatever their parents: then children that a
    /// bound rules out are not scored.
    pub keep: Option<Width>,
}

/// A token that is filled in at a mask.
struct Fill {
    token: TokenId,
    /// What it adds to log p (0 unless it was read): its log-probability, or nothing where it is padding.
    cost: f64,
}

/// A child's masks with the parent's likeliest tokens there. A token that the child masked again is
/// filled in as it was.
fn fills(parents: &[Node], proposals: &Proposals, child: &Child) -> Result<Vec<Fill>> {
    let (parent, expanded) = (&parents[child.parent].seq, &proposals.parents[child.parent]);
    if let Some(prediction) = &expanded.prediction {
        // The likeliest legal completion of the child, not of its parent.
        let whole = prediction.complete(&child.placements())?;
        let fill = |position: usize| {
            let token = whole[position];
            let known = parent.get(position).is_some() || expanded.confidence.is_empty();
            Fill { token, cost: if known { 0.0 } else { prediction.cost(&whole, position) } }
        };
        return Ok(child.seq.masked().map(fill).collect());
    }
    let confidence = expanded.confidence.iter().copied().chain(std::iter::repeat(0.0));
    let mut predicted = parent.masked().zip(&expanded.argmax).zip(confidence);
    let fill = |position: usize| match parent.get(position) {
        Some(token) => Some(Fill { token, cost: 0.0 }),
        None => {
            let ((_, &token), cost) = predicted.find(|((at, _), _)| *at == position)?;
            Some(Fill { token, cost })
        }
    };
    Ok(child.seq.masked().filter_map(fill).collect())
}

/// The completions that resubstitution scores, one per child.
pub(crate) fn completions(parents: &[Node], proposals: &Proposals) -> Result<Vec<Completion>> {
    (proposals.children.iter())
        .map(|child| {
            let fills = fills(parents, proposals, child)?;
            let tokens = child.seq.complete_with(fills.iter().map(|fill| fill.token));
            let fills = fills.iter().map(|fill| fill.cost).sum();
            Ok(Completion { tokens, fills })
        })
        .collect()
}

impl Value for Resubstitute {
    fn needs(&self) -> Needs {
        self.taste.needs()
    }

    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>> {
        let completions = completions(parents, proposals)?;
        let keep = self.keep.as_ref().map(|width| width.at(cx.step.index, cx.step.steps));
        appraise(cx, proposals, completions, self.taste, keep)
    }
}

/// The reward of finished children; for selections that ask for values at the last step only.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinalReward;

impl Value for FinalReward {
    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        _: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>> {
        let complete: Vec<_> = (proposals.children.iter())
            .filter_map(|child| child.seq.complete().map(<[TokenId]>::to_vec))
            .collect();
        Ok(plain(cx.problem.score(&complete)?))
    }
}
