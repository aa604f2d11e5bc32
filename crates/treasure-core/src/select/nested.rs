//! Nested selection: slot j competes only for children of parents in slots ≤ j, and skips sequences
//! that lower slots took.
//!
//! Guarantee: with draws by state, the first m slots are the same at every width ≥ m, so a wider
//! search never ends lower in value. Theorem 3 claims this of top m, where it is false. It holds
//! whenever the narrower of the two widths never grows: a slot that opens later has no line of its
//! own in the narrow search but has one in the wide one. A slot may stay empty.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Candidates, Kept, Select, Selection};
use crate::{Context, Flow, MaskedSeq, PruneReason, Width, population::Weight};

/// Keeps m(·) nested slots.
#[derive(Clone, Debug)]
pub struct Nested {
    /// The tree width m(·).
    pub width: Width,
}

impl Select for Nested {
    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        let children = &from.proposals.children;
        let width = self.width.at(cx.step.index, cx.step.steps);
        let mut selection = Selection::default();
        // The place of every child in the order of the design, once for all slots.
        let mut order: Vec<usize> = from.scored().collect();
        order.sort_unstable_by(|&a, &b| from.better(a, b));
        let mut place = vec![0; children.len()];
        for (at, &child) in order.iter().enumerate() {
            place[child] = at;
        }
        let mut by_slot: Vec<usize> = from.scored().collect();
        by_slot.sort_by_key(|&child| from.parent_slot(child));
        let mut arriving = by_slot.into_iter().peekable();

        let mut visible = BinaryHeap::new();
        let mut winner: FxHashMap<&Arc<MaskedSeq>, usize> = FxHashMap::default();
        let mut taken: FxHashSet<&Arc<MaskedSeq>> = FxHashSet::default();
        for slot in 0..width {
            while let Some(child) = arriving.next_if(|&child| from.parent_slot(child) <= slot) {
                let seq = &children[child].seq;
                if taken.contains(seq) {
                    selection.fates.push((child, PruneReason::Duplicate));
                    continue;
                }
                let best = winner.entry(seq).or_insert(child);
                if *best != child {
                    let loser = match from.represents(child, *best) {
                        true => std::mem::replace(best, child),
                        false => child,
                    };
                    selection.fates.push((loser, PruneReason::Duplicate));
                }
                visible.push(Reverse((place[child], child)));
            }
            while let Some(Reverse((_, child))) = visible.pop() {
                let seq = &children[child].seq;
                if winner.get(seq) == Some(&child) && taken.insert(seq) {
                    selection.kept.push(Kept { child, slot, weight: Weight::default() });
                    break;
                }
            }
        }
        Ok(selection)
    }
}
