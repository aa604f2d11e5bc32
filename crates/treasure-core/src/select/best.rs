//! Best per chain (SVDD) and best per block (CoDe).

use super::{Kept, Select, Selection, better, keep_all::keep_all};
use crate::{
    Flow,
    population::{Node, Proposals, Run, Step, Weight},
};

/// Keeps the best child of every parent, in its parent's slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestPerChain;

impl Select for BestPerChain {
    fn select(
        &self,
        _: &Step,
        _: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &Proposals,
        values: Option<&[f64]>,
    ) -> Flow<Selection> {
        let values = values.unwrap_or_default();
        let mut best: Vec<Option<usize>> = vec![None; parents.len()];
        for i in 0..values.len() {
            let best = &mut best[proposals.children[i].parent];
            if best.is_none_or(|other| better(i, other, parents, proposals, values).is_lt()) {
                *best = Some(i);
            }
        }
        let kept = (best.into_iter().zip(parents))
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

    fn select(
        &self,
        step: &Step,
        _: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &Proposals,
        values: Option<&[f64]>,
    ) -> Flow<Selection> {
        let best = values.and_then(|values| {
            (0..values.len()).min_by(|&a, &b| better(a, b, parents, proposals, values))
        });
        match best {
            // The last population stays as it is: its best member is the answer.
            Some(child) if !step.last => {
                let copies = parents.iter().map(|node| node.slot);
                let kept = copies.map(|slot| Kept { child, slot, weight: Weight::default() });
                Ok(Selection { kept: kept.collect(), ..Selection::default() })
            }
            _ => Ok(keep_all(parents, proposals)),
        }
    }
}
