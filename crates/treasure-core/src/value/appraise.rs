//! From completions to values: reward + prior · log p + variety · distinct bigrams, and children that
//! need not be scored because a bound on the reward says that they could neither be kept nor be the
//! answer.
//!
//! Guarantee: with a bound that holds, the nodes that are kept, their order, their values and the best
//! completion seen are those of scoring everything; only calls are saved.

use rustc_hash::FxHashMap;

use super::Valued;
use crate::{
    Flow, Halt, PruneReason, Scored, StopReason, TokenId,
    context::{Context, Needs},
    population::{Child, Proposals, Worth},
};

/// What a tree adds to the reward when it compares nodes. The default adds nothing, as the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taste {
    /// α: + α · log p of what was committed. The target p·exp(r/α) of Eq. (5), maximised.
    pub prior: f64,
    /// W: + W · the share of distinct bigrams of the completed text.
    pub variety: f64,
}

impl Taste {
    /// What must be read about parents whose completions are compared.
    pub(super) fn needs(&self) -> Needs {
        Needs { argmax: true, confidence: self.prior != 0.0, ..Needs::default() }
    }

    /// Whether the reward alone decides.
    pub fn is_plain(&self) -> bool {
        self.prior == 0.0 && self.variety == 0.0
    }
}

/// A completion that stands for a child.
pub(crate) struct Completion {
    pub tokens: Vec<TokenId>,
    /// log p of the tokens that were filled in.
    pub fills: f64,
}

/// Values completions, one per child. With `keep`, the best `keep` distinct children will live on
/// whatever their parents are, so that others may be skipped.
pub(super) fn appraise(
    cx: &Context<'_, '_>,
    proposals: &Proposals,
    completions: Vec<Completion>,
    taste: Taste,
    keep: Option<usize>,
) -> Flow<Vec<Valued>> {
    let problem = cx.problem;
    let children = &proposals.children;
    let (tokens, fills): (Vec<_>, Vec<_>) =
        completions.into_iter().map(|completion| (completion.tokens, completion.fills)).unzip();
    let views = problem.views(&tokens)?;
    // What is known of a child before it is scored, as a node and as a whole text.
    let mut known = Vec::with_capacity(children.len());
    for ((child, view), fills) in children.iter().zip(&views).zip(&fills) {
        let distinct =
            if taste.variety == 0.0 { 0.0 } else { taste.variety * view.key().variety() };
        known.push((
            taste.prior * child.log_p + distinct,
            taste.prior * (child.log_p + fills) + distinct,
        ));
    }
    let mut out: Vec<Option<Valued>> = vec![None; children.len()];
    let score = |which: &[usize], out: &mut Vec<Option<Valued>>| -> Flow<()> {
        let batch: Vec<Scored<'_>> = (which.iter())
            .map(|&i| Scored {
                tokens: &tokens[i],
                view: &views[i],
                extra: known[i].1,
                log_p: (!taste.is_plain()).then(|| children[i].log_p + fills[i]),
            })
            .collect();
        for (&i, reward) in which.iter().zip(problem.score_views(&batch)?) {
            out[i] = Some(Ok(Worth { reward, value: reward + known[i].0 }));
        }
        Ok(())
    };
    let all: Vec<usize> = (0..children.len()).collect();
    match (problem.reward_bound(), keep) {
        (Some(bound), Some(keep)) if children.len() > keep && !taste.is_plain() => {
            // Free answers first, then by what could be had at best.
            let mut order = all;
            order.sort_by(|&a, &b| {
                let free = |i: usize| problem.knows(&views[i]);
                free(b)
                    .cmp(&free(a))
                    .then_with(|| known[b].0.total_cmp(&known[a].0))
                    .then(a.cmp(&b))
            });
            let first = order.len().div_ceil(2).max(keep);
            let (now, later) = order.split_at(first.min(order.len()));
            score(now, &mut out)?;
            let enough = kept_at_least(children, &out, keep);
            let best = problem.best_value().unwrap_or(f64::NEG_INFINITY);
            let could = |&i: &usize| {
                let kept = enough.is_none_or(|enough| bound + known[i].0 >= enough);
                kept || bound + known[i].1 > best || problem.knows(&views[i])
            };
            let (rest, skipped): (Vec<usize>, Vec<usize>) = later.iter().partition(|i| could(i));
            score(&rest, &mut out)?;
            for i in skipped {
                out[i] = Some(Err(PruneReason::Bounded));
                problem.skipped();
            }
        }
        _ => score(&all, &mut out)?,
    }
    // Every child was scored or skipped above.
    out.into_iter().collect::<Option<_>>().ok_or(Halt::Stop(StopReason::MaxRewardCalls))
}

/// The value of the `keep`-th best distinct child that was scored; none if there are fewer.
fn kept_at_least(children: &[Child], out: &[Option<Valued>], keep: usize) -> Option<f64> {
    let mut best: FxHashMap<_, f64> = FxHashMap::default();
    for (child, valued) in children.iter().zip(out) {
        if let Some(Ok(worth)) = valued {
            let entry = best.entry(&child.seq).or_insert(worth.value);
            *entry = entry.max(worth.value);
        }
    }
    let mut values: Vec<f64> = best.into_values().collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values.get(keep.checked_sub(1)?).copied()
}
