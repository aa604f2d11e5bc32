//! Screened value: a cheap proxy reward ranks the children, only the best share is scored exactly.
//! Children screened out have no value and are pruned; they cost no reward call.
//!
//! The screen is by parent, in the order of slots: the children of each node compete among themselves,
//! sequences that an earlier node let through do not count, and at least two others pass, so that a
//! population can grow. So a child's fate depends on its own parent and those before it alone, however
//! wide the tree is, and nested selection keeps its guarantee.

use rustc_hash::FxHashSet;

use super::{Taste, Value, Valued, appraise::appraise, resubstitute::completions};
use crate::{
    Context, Flow, Needs, PruneReason,
    population::{Node, Proposals},
};

/// Sequences of a parent that pass whatever the share.
const AT_LEAST: usize = 2;

/// Resubstitution behind a screen. The proxy is [`crate::Problem::with_proxy`]'s.
#[derive(Clone, Debug)]
pub struct Screened {
    /// The share of each parent's sequences that is scored exactly, in (0, 1].
    pub share: f64,
    /// What the tree adds to the reward.
    pub taste: Taste,
}

impl Value for Screened {
    fn needs(&self) -> Needs {
        self.taste.needs()
    }

    fn value(
        &self,
        cx: &mut Context<'_, '_>,
        parents: &[Node],
        proposals: &mut Proposals,
    ) -> Flow<Vec<Valued>> {
        let all = completions(parents, proposals)?;
        let tokens: Vec<_> = all.iter().map(|completion| completion.tokens.clone()).collect();
        let proxy = cx.problem.score_proxy(&tokens)?;
        let children = &proposals.children;
        let mut passes = vec![false; children.len()];
        let mut seen = FxHashSet::default();
        for parent in 0..parents.len() {
            let mut order: Vec<usize> =
                (0..children.len()).filter(|&i| children[i].parent == parent).collect();
            // Ties by token rank, as in the selection.
            order.sort_by(|&a, &b| {
                let rank = |i: usize| children[i].rank;
                proxy[b].total_cmp(&proxy[a]).then(rank(a).cmp(&rank(b))).then(a.cmp(&b))
            });
            let new: FxHashSet<_> =
                order.iter().map(|&i| &children[i].seq).filter(|seq| !seen.contains(seq)).collect();
            let share = ((self.share * new.len() as f64).ceil() as usize).max(AT_LEAST);
            let mut own = 0;
            for &i in &order {
                let known = seen.contains(&children[i].seq);
                if known || own < share {
                    own += usize::from(!known);
                    seen.insert(&children[i].seq);
                    passes[i] = true;
                }
            }
        }
        let chosen: Vec<usize> = (0..children.len()).filter(|&i| passes[i]).collect();
        let few = Proposals {
            children: chosen.iter().map(|&i| children[i].clone()).collect(),
            parents: Vec::new(),
        };
        let mut keep = passes.iter();
        let mut scored = all;
        scored.retain(|_| keep.next().copied().unwrap_or_default());
        let mut values = appraise(cx, &few, scored, self.taste, None)?.into_iter();
        Ok(passes
            .iter()
            .map(|&passes| match passes {
                true => values.next().unwrap_or(Err(PruneReason::Screened)),
                false => Err(PruneReason::Screened),
            })
            .collect())
    }
}
