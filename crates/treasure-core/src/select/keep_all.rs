//! Every child lives on: plain sampling, and best of N until its end.

use super::{Candidates, Kept, Select, Selection};
use crate::{Context, Flow, context::Step};

/// Keeps all; asks for values at the last step only.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAll;

/// Keeps every child in the slot of its parent, with its parent's weight.
pub(super) fn keep_all(from: &Candidates<'_>) -> Selection {
    let kept = (from.proposals.children.iter().enumerate())
        .map(|(child, proposed)| {
            let parent = &from.parents[proposed.parent];
            Kept { child, slot: parent.slot, weight: parent.weight }
        })
        .collect();
    Selection { kept, ..Selection::default() }
}

impl Select for KeepAll {
    fn needs_values(&self, step: &Step) -> bool {
        step.last
    }

    fn select(&self, _: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        Ok(keep_all(from))
    }
}
