//! How children are made from a population.

mod first_hitting;
mod parallel;

pub use first_hitting::{FirstHitting, Reveal};
pub use parallel::{Grid, Parallel};

use std::sync::Arc;

use crate::{
    Encoded, Flow, Key, MaskedSeq,
    population::{Child, Node, Proposals, Run, Step},
};

/// A way to make children.
pub trait Propose {
    /// How many steps it takes from a number of masks.
    fn steps(&self, masks: usize) -> usize;

    /// The children of every parent. With `argmax`, the likeliest token at each mask of each parent is
    /// read along, in the same question.
    fn propose(
        &self,
        step: &Step,
        run: &mut Run<'_, '_>,
        parents: &[Node],
        argmax: bool,
    ) -> Flow<Proposals>;

    /// Whether no step follows.
    fn is_last(&self, step: &Step, proposals: &Proposals) -> bool;

    /// The time at which a child's prediction will be asked for when it is expanded from a slot.
    fn prediction_time(&self, step: &Step, run: &Run<'_, '_>, child: &Child, slot: usize) -> f64;
}

/// What a draw depends on, beside the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawBy {
    /// The state: equal nodes draw equally, so that trees of different width stay coupled.
    State,
    /// Slot and step: copies of one particle part ways.
    Slot,
}

/// Streams of random numbers at one node, kept apart by purpose.
pub(crate) mod purpose {
    pub(crate) const TREE: u64 = 0x01;
    pub(crate) const PARTICLE: u64 = 0x02;
    pub(crate) const TIME: u64 = 0x11;
    pub(crate) const POSITION: u64 = 0x12;
    pub(crate) const TOKEN: u64 = 0x13;
    pub(crate) const REVEAL: u64 = 0x14;
    pub(crate) const COMPLETION: u64 = 0x15;
    pub(crate) const RESAMPLE: u64 = 0x16;
}

impl DrawBy {
    /// The key of a node that is about to be expanded. `level` is the masks left (first hitting) or the
    /// step (parallel) for a tree, the step for a population.
    pub(crate) fn key(self, sample: Key, level: usize, slot: usize, seq: &MaskedSeq) -> Key {
        match self {
            Self::State => sample.fold(purpose::TREE).fold(level as u64).fold_seq(seq),
            Self::Slot => sample.fold(purpose::PARTICLE).fold(level as u64).fold(slot as u64),
        }
    }
}

/// One forward pass per parent at its time, reusing what was made to value it.
fn encode_parents(run: &Run<'_, '_>, parents: &[Node], times: &[f64]) -> Flow<Vec<Encoded>> {
    let reusable = |node: &Node, t: f64| {
        node.encoded
            .clone()
            .filter(|encoded| run.problem.time_agnostic() || encoded.t().to_bits() == t.to_bits())
    };
    let kept: Vec<_> = parents.iter().zip(times).map(|(node, &t)| reusable(node, t)).collect();
    let wanted: Vec<(Arc<MaskedSeq>, f64)> = (parents.iter().zip(times).zip(&kept))
        .filter(|(_, kept)| kept.is_none())
        .map(|((node, &t), _)| (node.seq.clone(), t))
        .collect();
    let mut fresh = run.problem.encode(&wanted)?.into_iter();
    Ok(kept.into_iter().filter_map(|kept| kept.or_else(|| fresh.next())).collect())
}

/// A parent without masks is carried on as its own only child.
fn carried(parent: usize, node: &Node, t: f64) -> Child {
    Child {
        parent,
        seq: node.seq.clone(),
        t,
        rank: 0,
        reveal: None,
        also: Vec::new(),
        encoded: None,
    }
}
