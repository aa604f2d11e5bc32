//! How children are made from a population.

mod first_hitting;
mod parallel;

pub use first_hitting::{FirstHitting, Order, Reveal};
pub use parallel::{Grid, Parallel};

use std::sync::Arc;

use crate::{
    Context, Encoded, Flow, Key, MaskedSeq, Sampler, Width,
    population::{Child, Node, Proposals},
};

/// A way to make children.
pub trait Propose: Send + Sync {
    /// How many steps it takes from a number of masks.
    fn steps(&self, masks: usize) -> usize;

    /// The children of every parent, with what `cx.step.needs` asks for about the parents.
    fn propose(&self, cx: &mut Context<'_, '_>, parents: &[Node]) -> Flow<Proposals>;

    /// Whether no step follows.
    fn is_last(&self, cx: &Context<'_, '_>, proposals: &Proposals) -> bool;
}

/// The proposals of a [`Sampler`], drawn by slot and step.
pub(crate) fn sampling(sampler: Sampler, candidates: usize) -> Box<dyn Propose> {
    let draws = DrawBy::Slot;
    let reveal = match sampler {
        Sampler::Ancestral { steps } => {
            let (grid, candidates) = (Grid::Uniform(steps), Width::Constant(candidates));
            return Box::new(Parallel { grid, candidates, draws });
        }
        Sampler::FirstHitting => Reveal::Sample { candidates },
        // Argmax is certain, so candidates differ by position.
        Sampler::Greedy => Reveal::Top { beam: Width::Constant(1), groups: candidates, min_p: 0.0 },
    };
    Box::new(FirstHitting { reveal, draws, order: Order::Uniform, commit_threshold: None })
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
pub mod purpose {
    /// Nodes of a tree.
    pub const TREE: u64 = 0x01;
    /// Members of a population.
    pub const PARTICLE: u64 = 0x02;
    /// The next event time.
    pub const TIME: u64 = 0x11;
    /// Which position is revealed.
    pub const POSITION: u64 = 0x12;
    /// Which token it becomes.
    pub const TOKEN: u64 = 0x13;
    /// Whether a mask is revealed at all.
    pub const REVEAL: u64 = 0x14;
    /// Sampled completions.
    pub const COMPLETION: u64 = 0x15;
    /// Resampling.
    pub const RESAMPLE: u64 = 0x16;
    /// The answer that is drawn.
    pub const ANSWER: u64 = 0x17;
}

impl DrawBy {
    /// The key of a node that is about to be expanded. `level` is the masks left (first hitting) or the
    /// step (parallel) for a tree, the step for a population.
    pub fn key(self, sample: Key, level: usize, slot: usize, seq: &MaskedSeq) -> Key {
        match self {
            Self::State => sample.fold(purpose::TREE).fold(level as u64).fold_seq(seq),
            Self::Slot => sample.fold(purpose::PARTICLE).fold(level as u64).fold(slot as u64),
        }
    }
}

/// One forward pass per parent at its time, reusing what was made to value it.
fn encode_parents(cx: &Context<'_, '_>, parents: &[Node], times: &[f64]) -> Flow<Vec<Encoded>> {
    let reusable = |node: &Node, t: f64| {
        node.encoded
            .clone()
            .filter(|encoded| cx.problem.time_agnostic() || encoded.t().to_bits() == t.to_bits())
    };
    let kept: Vec<_> = parents.iter().zip(times).map(|(node, &t)| reusable(node, t)).collect();
    let wanted: Vec<(Arc<MaskedSeq>, f64)> = (parents.iter().zip(times).zip(&kept))
        .filter(|(_, kept)| kept.is_none())
        .map(|((node, &t), _)| (node.seq.clone(), t))
        .collect();
    let mut fresh = cx.problem.encode(&wanted)?.into_iter();
    Ok(kept.into_iter().filter_map(|kept| kept.or_else(|| fresh.next())).collect())
}

/// A parent without masks is carried on as its own only child.
fn carried(parent: usize, node: &Node, t: f64) -> Child {
    Child {
        parent,
        seq: node.seq.clone(),
        t,
        next_t: None,
        rank: 0,
        reveal: None,
        also: Vec::new(),
        log_p: node.log_p,
        encoded: None,
    }
}
