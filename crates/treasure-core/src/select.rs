//! Which children form the next population.

mod best;
mod chains;
mod feynman_kac;
mod fk_reference;
mod fully_adapted;
mod keep_all;
mod nested;
mod temper;
mod top_m;

pub use best::{BestPerBlock, BestPerChain};
pub use chains::BestChains;
pub use feynman_kac::FeynmanKac;
pub use fk_reference::FkReferenceResampler;
pub use fully_adapted::FullyAdapted;
pub use keep_all::KeepAll;
pub use nested::Nested;
pub use temper::Temper;
pub use top_m::TopM;

use std::cmp::Ordering;

use crate::{
    Context, Flow, PruneReason,
    context::Step,
    population::{Node, Proposals, Weight},
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
    /// Why a child was pruned, by its index, where it was not simply beaten.
    pub fates: Vec<(usize, PruneReason)>,
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
        children: usize,
        weight: impl Fn(Weight) -> Weight,
    ) {
        let resampled = (ancestors.iter().zip(&self.kept))
            .map(|(&ancestor, &Kept { slot, .. })| {
                let Kept { child, weight: before, .. } = self.kept[ancestor];
                Kept { child, slot, weight: weight(before) }
            })
            .collect();
        self.fates = (0..children).map(|child| (child, PruneReason::Resampled)).collect();
        self.kept = resampled;
        self.resampled = true;
    }
}

/// The children of a step with what they are worth.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// The population they were proposed from.
    pub parents: &'a [Node],
    /// The children.
    pub proposals: &'a Proposals,
    /// The value of each, none where it was not scored; absent if the step asked for no values.
    pub values: Option<&'a [Option<f64>]>,
}

impl Candidates<'_> {
    /// The value of a child that was scored.
    fn value(&self, child: usize) -> Option<f64> {
        self.values.and_then(|values| values[child])
    }

    /// The children that were scored, in order.
    fn scored(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.proposals.children.len()).filter(|&child| self.value(child).is_some())
    }

    /// The slot of a child's parent.
    fn parent_slot(&self, child: usize) -> usize {
        self.parents[self.proposals.children[child].parent].slot
    }

    /// Higher values first, children without one last.
    fn by_value(&self, a: usize, b: usize) -> Ordering {
        let value = |child| self.value(child).unwrap_or(f64::NEG_INFINITY);
        value(b).total_cmp(&value(a))
    }

    /// The order of the design: value, then token rank, then parent slot, then token id, then position
    /// (two groups of one parent may place the same token). It never depends on the batch order.
    fn better(&self, a: usize, b: usize) -> Ordering {
        let key = |i: usize| {
            let child = &self.proposals.children[i];
            let (position, token) = child.reveal.unwrap_or_default();
            (child.rank, self.parent_slot(i), token, position)
        };
        self.by_value(a, b).then_with(|| key(a).cmp(&key(b))).then(a.cmp(&b))
    }

    /// Of two equal sequences, whether `a` stands for both: the higher value, then the lower parent slot.
    fn represents(&self, a: usize, b: usize) -> bool {
        let slot = |child| self.parent_slot(child);
        self.by_value(a, b).then(slot(a).cmp(&slot(b))).then(a.cmp(&b)) == Ordering::Less
    }
}

/// A way to pick the next population.
pub trait Select: Send + Sync {
    /// Whether this step needs values. `step.last` is known only after the children were proposed.
    fn needs_values(&self, _step: &Step) -> bool {
        true
    }

    /// What a member of the last population is compared by when the answer is chosen.
    fn standing(&self, node: &Node) -> Option<f64> {
        node.worth.map(|worth| worth.value)
    }

    /// The next population; values are there whenever `needs_values` asked for them.
    fn select(&self, cx: &mut Context<'_, '_>, from: &Candidates<'_>) -> Flow<Selection>;
}
