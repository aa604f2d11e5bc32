//! Resubstitution value: fill every mask with its likeliest token and score once (Alg. 2).
//! Costs no model call. Off from the expected reward by at most Theorem 2's bound.
//!
//! Filling masks independently doubles and breaks words. With a second look the surer half is filled,
//! the model predicts again, and the rest is filled from that: one model call a child for each look
//! beyond the first.

use std::sync::Arc;

use super::{
    Taste, Value, Valued,
    appraise::{Completion, appraise},
    plain,
};
use crate::{
    Context, Flow, MaskedSeq, Needs, Result, TokenId, Want, Width,
    population::{Child, Node, Proposals},
};

/// The reward of the child filled from its parent's prediction.
#[derive(Clone, Debug)]
pub struct Resubstitute {
    /// What the tree adds to the reward.
    pub taste: Taste,
    /// Predictions used to fill a completion, the parent's included.
    pub looks: usize,
    /// The tree width, where the selection keeps the best whatever their parents: then children that a
    /// bound rules out are not scored.
    pub keep: Option<Width>,
}

impl Default for Resubstitute {
    fn default() -> Self {
        Self { taste: Taste::default(), looks: 1, keep: None }
    }
}

/// A token that is filled in at a mask.
struct Fill {
    position: usize,
    token: TokenId,
    /// Its log-probability (0 unless it was read).
    sure: f64,
    /// What it adds to log p: the same, or nothing where it is padding.
    cost: f64,
}

impl Fill {
    fn new(position: usize, token: TokenId, sure: f64) -> Self {
        Self { position, token, sure, cost: sure }
    }
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
            match known {
                true => Fill::new(position, token, 0.0),
                false => Fill {
                    cost: prediction.cost(&whole, position),
                    ..Fill::new(position, token, prediction.logprob(position, token))
                },
            }
        };
        return Ok(child.seq.masked().map(fill).collect());
    }
    let confidence = expanded.confidence.iter().copied().chain(std::iter::repeat(0.0));
    let mut predicted = parent.masked().zip(&expanded.argmax).zip(confidence);
    let fill = |position: usize| match parent.get(position) {
        Some(token) => Some(Fill::new(position, token, 0.0)),
        None => {
            let ((_, &token), confidence) = predicted.find(|((at, _), _)| *at == position)?;
            Some(Fill::new(position, token, confidence))
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

impl Resubstitute {
    /// Completions filled in several looks, the surest masks first.
    fn looked(
        &self,
        cx: &Context<'_, '_>,
        parents: &[Node],
        proposals: &Proposals,
    ) -> Flow<Vec<Completion>> {
        let children = &proposals.children;
        let mut states: Vec<(MaskedSeq, f64)> =
            children.iter().map(|child| ((*child.seq).clone(), 0.0)).collect();
        let mut fill: Vec<Vec<Fill>> =
            children.iter().map(|child| fills(parents, proposals, child)).collect::<Result<_>>()?;
        for look in 0..self.looks {
            let left = self.looks - look;
            for ((state, log_p), fill) in states.iter_mut().zip(&mut fill) {
                fill.sort_by(|a, b| b.sure.total_cmp(&a.sure).then(a.position.cmp(&b.position)));
                for fill in &fill[..fill.len().div_ceil(left)] {
                    state.reveal_in_place(fill.position, fill.token);
                    *log_p += fill.cost;
                }
            }
            let open: Vec<usize> =
                (0..states.len()).filter(|&i| states[i].0.n_masked() > 0).collect();
            fill = states.iter().map(|_| Vec::new()).collect();
            let asked: Vec<_> =
                open.iter().map(|&i| (Arc::new(states[i].0.clone()), children[i].t)).collect();
            let encoded = cx.problem.encode(&asked)?;
            let want = Want { argmax: true, confidence: true, ..Want::default() };
            let wants: Vec<_> = encoded.iter().map(|encoded| (encoded, want)).collect();
            for (&i, answer) in open.iter().zip(cx.problem.read(&wants)?) {
                let whole = states[i].0.complete_with(answer.argmax.iter().copied());
                let fills = states[i].0.masked().zip(answer.confidence).map(|(position, sure)| {
                    let cost = (answer.prediction.as_ref())
                        .map_or(sure, |prediction| prediction.cost(&whole, position));
                    Fill { cost, ..Fill::new(position, whole[position], sure) }
                });
                fill[i] = fills.collect();
            }
        }
        Ok(states
            .into_iter()
            .map(|(state, fills)| Completion { tokens: state.complete_with([]), fills })
            .collect())
    }
}

impl Value for Resubstitute {
    fn needs(&self) -> Needs {
        let confidence = self.taste.prior != 0.0 || self.looks > 1;
        Needs { argmax: true, confidence, ..Needs::default() }
    }

    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>> {
        let completions = match self.looks {
            1 => completions(parents, proposals)?,
            _ => self.looked(cx, parents, proposals)?,
        };
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
