//! Best per chain (SVDD) and best per block (CoDe).

use super::{Candidates, Kept, Select, Selection, keep_all::keep_all};
use crate::{
    Context, Flow, PruneReason,
    context::Step,
    population::Weight,
    propose::purpose,
    resample::{LogWeights, draw_one},
};

/// Keeps one child of every parent, in its parent's slot: the best, or one drawn by exp(value/α).
#[derive(Clone, Copy, Debug, Default)]
pub struct BestPerChain {
    /// α; 0 takes the best.
    pub alpha: f64,
}

impl BestPerChain {
    /// One child of every parent, drawn softly.
    fn drawn(self, cx: &Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        let children = &from.proposals.children;
        let mut families: Vec<Vec<usize>> = vec![Vec::new(); from.parents.len()];
        for child in from.scored() {
            families[children[child].parent].push(child);
        }
        let key = cx.key.fold(purpose::CHOICE).fold(cx.step.index as u64);
        let mut kept = Vec::with_capacity(families.len());
        for (family, node) in families.iter().zip(from.parents) {
            if family.is_empty() {
                continue;
            }
            let soft = |&child: &usize| from.value(child).map(|value| value / self.alpha);
            let logs: Vec<f64> = family.iter().filter_map(soft).collect();
            let weights = LogWeights::new("values of candidates", &logs)?;
            let child = family[draw_one(&weights, key.fold(node.slot as u64))];
            kept.push(Kept { child, slot: node.slot, weight: Weight::default() });
        }
        let fates = (0..children.len()).map(|child| (child, PruneReason::Resampled)).collect();
        Ok(Selection { kept, fates, ..Selection::default() })
    }
}

impl Select for BestPerChain {
    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection> {
        if self.alpha > 0.0 {
            return self.drawn(cx, from);
        }
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
