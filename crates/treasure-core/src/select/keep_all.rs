//! Every child lives on: plain sampling, and best of N until its end.

use super::{Kept, Select, Selection};
use crate::{
    Flow,
    population::{Node, Proposals, Run, Step},
};

/// Keeps all; asks for values at the last step only.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAll;

/// Keeps every child in the slot of its parent, with its parent's weight.
pub(super) fn keep_all(parents: &[Node], proposals: &Proposals) -> Selection {
    let kept = (proposals.children.iter().enumerate())
        .map(|(child, proposed)| {
            let parent = &parents[proposed.parent];
            Kept { child, slot: parent.slot, weight: parent.weight }
        })
        .collect();
    Selection { kept, ..Selection::default() }
}

impl Select for KeepAll {
    fn needs_values(&self, step: &Step) -> bool {
        step.last
    }

    fn select(
        &self,
        _: &Step,
        _: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &Proposals,
        _: Option<&[f64]>,
    ) -> Flow<Selection> {
        Ok(keep_all(parents, proposals))
    }
}
