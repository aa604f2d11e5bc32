//! How children are made from a population.

mod destinations;
mod first_hitting;
mod pace;
mod parallel;
mod remdm;
mod unmask;

pub use destinations::Destinations;
pub use first_hitting::{FirstHitting, MOST_ROOMS, Order, ROOM, Reveal};
pub use pace::{Pace, Stage};
pub use parallel::{Grid, Parallel};
pub use remdm::Remdm;
pub use unmask::{Surest, Unmask};

use std::sync::Arc;

use crate::{
    Context, Encoded, Flow, Key, MaskedSeq, Sampler, Width,
    population::{Node, Proposals},
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
pub(crate) fn sampling(sampler: Sampler, candidates: impl Into<Width>) -> Box<dyn Propose> {
    let candidates: Width = candidates.into();
    let reveal = match sampler {
        Sampler::Ancestral { steps } => {
            return Box::new(Parallel {
                grid: Grid::Uniform(steps),
                candidates,
                draws: DrawBy::Slot,
            });
        }
        Sampler::Remdm { steps, remask, eta } => {
            return Box::new(Remdm { steps, remask, eta, candidates });
        }
        Sampler::Llada(llada) => {
            return Box::new(Unmask { sampler: Surest::Llada(llada), candidates });
        }
        Sampler::Dream(dream) => {
            return Box::new(Unmask { sampler: Surest::Dream(dream), candidates });
        }
        Sampler::FirstHitting => Reveal::Sample { candidates },
        // Argmax is certain, so candidates differ by position.
        Sampler::Greedy => Reveal::Top {
            beam: Width::Constant(1),
            groups: candidates.widest(),
            min_p: 0.0,
            widen: 0,
        },
    };
    Box::new(FirstHitting::new(reveal))
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
    /// A pass of a method that makes several.
    pub const ITERATION: u64 = 0x18;
    /// Which of several candidates is followed.
    pub const CHOICE: u64 = 0x19;
    /// Which positions are masked again.
    pub const REMASK: u64 = 0x1a;
    /// Whether a move of a Markov chain is accepted.
    pub const ACCEPT: u64 = 0x1b;
    /// What a schedule leaves to chance.
    pub const SCHEDULE: u64 = 0x1c;
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

/// One forward pass per parent at its time, reusing what was made to value it. With `reuse`, a pass goes on from
/// that of the state before, except every so many steps.
fn encode_parents(
    cx: &Context<'_, '_>,
    parents: &[Node],
    times: &[f64],
    reuse: Option<usize>,
) -> Flow<Vec<Encoded>> {
    let reusable = |node: &Node, t: f64| {
        node.encoded
            .clone()
            .filter(|encoded| cx.problem.time_agnostic() || encoded.t().to_bits() == t.to_bits())
    };
    let kept: Vec<_> = parents.iter().zip(times).map(|(node, &t)| reusable(node, t)).collect();
    let open = || parents.iter().zip(times).zip(&kept).filter(|(_, kept)| kept.is_none());
    let wanted: Vec<(Arc<MaskedSeq>, f64)> =
        open().map(|((node, &t), _)| (node.seq.clone(), t)).collect();
    let mut fresh = match reuse {
        None => cx.problem.encode(&wanted)?,
        Some(every) => {
            let anew = cx.step.index.is_multiple_of(every);
            let before = |node: &Node| {
                let (seq, t) = node.origin.as_ref().filter(|_| !anew)?;
                cx.problem.recall(seq, *t)
            };
            let before: Vec<_> = open().map(|((node, _), _)| before(node)).collect();
            cx.problem.encode_after(&wanted, &before)?
        }
    }
    .into_iter();
    Ok(kept.into_iter().filter_map(|kept| kept.or_else(|| fresh.next())).collect())
}
