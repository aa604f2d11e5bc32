//! Best per chain (SVDD) and best per block (CoDe).

use super::{Candidates, Kept, Select, Selection, keep_all::keep_all};
use crate::{Context, Flow, context::Step, population::Weight};

/// Keeps the best child of every parent, in its parent's slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestPerChain;

impl Select for BestPerChain {
    fn select(&self, _: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        let mut best: Vec<Option<usize>> = vec![None; from.parents.len()];
        for child in from.scored() {
            let best = &mut best[from.proposals.children[child].parent];
            if best.is_none_or(|other| from.better(child, other).is_lt()) {
                *best = Some(child);
            }
        }
        let kept = (best.into_iter().zip(from.parents))
            .filter_map(|(child, node)| {
                Some(Kept { child: child?, slot: node.slot, weight: Weight::default() })
            })
            .collect();
        Ok(Selection { kept, ..Selection::default() })
    }
}

/// Keeps all within a block of steps; at its end the best child takes every slot.
#[derive(Clone, Copy, Debug)]
pub struct BestPerBlock {
    /// Steps per block.
    pub block: usize,
}

impl Select for BestPerBlock {
    fn needs_values(&self, step: &Step) -> bool {
        step.last || (step.index + 1).is_multiple_of(self.block)
    }

    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        match from.scored().min_by(|&a, &b| from.better(a, b)) {
            // The last population stays as it is: its best member is the answer.
            Some(child) if !cx.step.last => {
                let copies = from.parents.iter().map(|node| node.slot);
                let kept = copies.map(|slot| Kept { child, slot, weight: Weight::default() });
                Ok(Selection { kept: kept.collect(), ..Selection::default() })
            }
            _ => Ok(keep_all(from)),
        }
    }
}
