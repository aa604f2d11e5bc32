//! Nested selection: slot j competes only for children of parents in slots ≤ j, and skips sequences
//! that lower slots took.
//!
//! Guarantee: with draws by state, the first m slots are the same at every width ≥ m, so a wider
//! search never ends lower. Theorem 3 claims this of top m, where it is false. It holds for widths
//! that do not grow again after they have shrunk; a slot may stay empty.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Kept, Select, Selection, better, represents};
use crate::{
    Flow, MaskedSeq, PruneReason, Width,
    population::{Node, Proposals, Run, Step, Weight},
};

/// Keeps m(·) nested slots.
#[derive(Clone, Debug)]
pub struct Nested {
    /// The tree width m(·).
    pub width: Width,
}

impl Select for Nested {
    fn select(
        &self,
        step: &Step,
        _: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &Proposals,
        values: Option<&[f64]>,
    ) -> Flow<Selection> {
        let values = values.unwrap_or_default();
        let width = self.width.at(step.index, step.steps);
        let mut selection = Selection::default();
        // The place of every child in the order of the design, once for all slots.
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by(|&a, &b| better(a, b, parents, proposals, values));
        let mut place = vec![0; order.len()];
        for (at, &child) in order.iter().enumerate() {
            place[child] = at;
        }
        let mut by_slot: Vec<usize> = (0..values.len()).collect();
        by_slot.sort_by_key(|&i| parents[proposals.children[i].parent].slot);
        let mut arriving = by_slot.into_iter().peekable();

        let mut visible = BinaryHeap::new();
        let mut winner: FxHashMap<&Arc<MaskedSeq>, usize> = FxHashMap::default();
        let mut taken: FxHashSet<&Arc<MaskedSeq>> = FxHashSet::default();
        for slot in 0..width {
            while let Some(i) =
                arriving.next_if(|&i| parents[proposals.children[i].parent].slot <= slot)
            {
                let seq = &proposals.children[i].seq;
                if values[i] == f64::NEG_INFINITY {
                    selection.fates.insert(i, PruneReason::Screened);
                } else if taken.contains(seq) {
                    selection.fates.insert(i, PruneReason::Duplicate);
                } else {
                    let best = winner.entry(seq).or_insert(i);
                    if *best != i {
                        let loses = if represents(i, *best, parents, proposals, values) {
                            std::mem::replace(best, i)
                        } else {
                            i
                        };
                        selection.fates.insert(loses, PruneReason::Duplicate);
                    }
                    visible.push(Reverse((place[i], i)));
                }
            }
            while let Some(Reverse((_, child))) = visible.pop() {
                let seq = &proposals.children[child].seq;
                if winner.get(seq) == Some(&child) && taken.insert(seq) {
                    selection.kept.push(Kept { child, slot, weight: Weight::default() });
                    break;
                }
            }
        }
        Ok(selection)
    }
}
