//! Top m of all children (Alg. 3, line 11), equal sequences counted once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Candidates, Kept, Select, Selection};
use crate::{Context, Flow, MaskedSeq, PruneReason, Width, population::Weight};

/// Keeps the best m(·).
#[derive(Clone, Debug)]
pub struct TopM {
    /// The tree width m(·).
    pub width: Width,
}

impl Select for TopM {
    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        let mut selection = Selection::default();
        let mut first: FxHashMap<&Arc<MaskedSeq>, usize> = FxHashMap::default();
        for child in from.scored() {
            let winner = first.entry(&from.proposals.children[child].seq).or_insert(child);
            if *winner != child {
                let loser = match from.represents(child, *winner) {
                    true => std::mem::replace(winner, child),
                    false => child,
                };
                selection.fates.push((loser, PruneReason::Duplicate));
            }
        }
        let mut order: Vec<usize> = first.into_values().collect();
        order.sort_unstable_by(|&a, &b| from.better(a, b));
        order.truncate(self.width.at(cx.step.index, cx.step.steps));
        selection.kept = (order.into_iter().enumerate())
            .map(|(slot, child)| Kept { child, slot, weight: Weight::default() })
            .collect();
        Ok(selection)
    }
}
