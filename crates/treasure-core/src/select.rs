//! Which children form the next population.

mod best;
mod feynman_kac;
mod fk_reference;
mod keep_all;
mod nested;
mod top_m;

pub use best::{BestPerBlock, BestPerChain};
pub use feynman_kac::FeynmanKac;
pub use fk_reference::FkReferenceResampler;
pub use keep_all::KeepAll;
pub use nested::Nested;
pub use top_m::TopM;

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::{
    Flow, PruneReason,
    population::{Node, Proposals, Run, Step, Weight},
};

/// A child that lives on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// Its index among the children.
    pub child: usize,
    /// Its slot in the next population.
    pub slot: usize,
    /// Its weight.
    pub weight: Weight,
}

/// The outcome of a selection.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The next population, in slot order; a child may appear several times.
    pub kept: Vec<Kept>,
    /// Why a child was pruned, where it was not simply beaten.
    pub fates: FxHashMap<usize, PruneReason>,
    /// The effective sample size, if weights were computed.
    pub ess: Option<f64>,
    /// Whether the population was resampled.
    pub resampled: bool,
}

impl Selection {
    /// Replaces the population by drawn ancestors, which take its slots in turn.
    fn resample(
        &mut self,
        ancestors: &[usize],
        proposals: &Proposals,
        weight: impl Fn(Weight) -> Weight,
    ) {
        let resampled = (ancestors.iter().zip(&self.kept))
            .map(|(&ancestor, &Kept { slot, .. })| {
                let Kept { child, weight: before, .. } = self.kept[ancestor];
                Kept { child, slot, weight: weight(before) }
            })
            .collect();
        for child in 0..proposals.children.len() {
            self.fates.insert(child, PruneReason::Resampled);
        }
        self.kept = resampled;
        self.resampled = true;
    }
}

/// A way to pick the next population.
pub trait Select {
    /// Whether this step needs values. `step.last` is known only after the children were proposed.
    fn needs_values(&self, _step: &Step) -> bool {
        true
    }

    /// The next population; `values` is there whenever `needs_values` asked for it.
    fn select(
        &self,
        step: &Step,
        run: &mut Run<'_, '_>,
        parents: &[Node],
        proposals: &Proposals,
        values: Option<&[f64]>,
    ) -> Flow<Selection>;
}

/// The order of the design: value, then token rank, then parent slot, then token id, then position
/// (two groups of one parent may place the same token). It never depends on the batch order.
fn better(a: usize, b: usize, parents: &[Node], proposals: &Proposals, values: &[f64]) -> Ordering {
    let key = |i: usize| {
        let child = &proposals.children[i];
        let (position, token) = child.reveal.unwrap_or_default();
        (child.rank, parents[child.parent].slot, token, position)
    };
    values[b].total_cmp(&values[a]).then_with(|| key(a).cmp(&key(b))).then(a.cmp(&b))
}

/// Of two equal sequences, whether `a` stands for both: the higher value, then the lower parent slot.
fn represents(a: usize, b: usize, parents: &[Node], proposals: &Proposals, values: &[f64]) -> bool {
    let slot = |i: usize| parents[proposals.children[i].parent].slot;
    let order = values[b].total_cmp(&values[a]).then(slot(a).cmp(&slot(b))).then(a.cmp(&b));
    order == Ordering::Less
}
