//! Top m of all children (Alg. 3, line 11), equal sequences counted once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Kept, Select, Selection, better, represents};
use crate::{
    Flow, MaskedSeq, PruneReason, Width,
    population::{Node, Proposals, Run, Step, Weight},
};

/// Keeps the best m(·).
#[derive(Clone, Debug)]
pub struct TopM {
    /// The tree width m(·).
    pub width: Width,
}

impl Select for TopM {
    fn select(
        &self,
        step: &Step,
        _: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &Proposals,
        values: Option<&[f64]>,
    ) -> Flow<Selection> {
        let values = values.unwrap_or_default();
        let mut selection = Selection::default();
        let mut first: FxHashMap<&Arc<MaskedSeq>, usize> = FxHashMap::default();
        for (i, &value) in values.iter().enumerate() {
            if value == f64::NEG_INFINITY {
                selection.fates.insert(i, PruneReason::Screened);
                continue;
            }
            let winner = first.entry(&proposals.children[i].seq).or_insert(i);
            if *winner != i {
                let loser = if represents(i, *winner, parents, proposals, values) {
                    std::mem::replace(winner, i)
                } else {
                    i
                };
                selection.fates.insert(loser, PruneReason::Duplicate);
            }
        }
        let mut order: Vec<usize> = first.into_values().collect();
        order.sort_unstable_by(|&a, &b| better(a, b, parents, proposals, values));
        order.truncate(self.width.at(step.index, step.steps));
        selection.kept = (order.into_iter().enumerate())
            .map(|(slot, child)| Kept { child, slot, weight: Weight::default() })
            .collect();
        Ok(selection)
    }
}
