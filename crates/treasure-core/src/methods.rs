//! The methods: each wires a proposal, a value and a selection into the one loop.

mod base;
mod best_of_n;
mod code;
mod fk;
mod fk_reference;
mod greedy;
mod naive_tree;
mod svdd;
mod treasure;

pub use base::Base;
pub use best_of_n::BestOfN;
pub use code::Code;
pub use fk::FkSteering;
pub use fk_reference::FkReference;
pub use greedy::Greedy;
pub use naive_tree::NaiveTree;
pub use svdd::Svdd;
pub use treasure::Treasure;

use crate::{
    Flow, Key, Observer, Outcome, Problem, Result, Sampler, Width,
    population::{Child, Node, Proposals, Run, Step},
    propose::{DrawBy, FirstHitting, Grid, Parallel, Propose, Reveal},
};

/// A search method.
///
/// A method draws from nothing but its key: the same problem and key give the same outcome.
pub trait Method: Send + Sync {
    /// The name users know it by.
    fn name(&self) -> &'static str;

    /// Every option, after defaults, as it goes into plans and traces.
    fn plan(&self) -> serde_json::Value;

    /// Searches. `key` is the key of the sample.
    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome>;
}

/// A method's options as JSON. Options are plain data, so this cannot fail; if it did, the plan would
/// say so instead of the options.
fn plan_of(options: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(options).unwrap_or_else(|error| error.to_string().into())
}

/// The proposals of a [`Sampler`], drawn by slot and step.
#[derive(Clone, Debug)]
enum SamplerProposals {
    Parallel(Parallel),
    FirstHitting(FirstHitting),
}

impl SamplerProposals {
    fn new(sampler: Sampler, candidates: usize) -> Self {
        let draws = DrawBy::Slot;
        let reveal = match sampler {
            Sampler::Ancestral { steps } => {
                let (grid, candidates) = (Grid::Uniform(steps), Width::Constant(candidates));
                return Self::Parallel(Parallel { grid, candidates, draws });
            }
            Sampler::FirstHitting => Reveal::Sample { candidates },
            // Argmax is certain, so candidates differ by position.
            Sampler::Greedy => Reveal::Top { beam: Width::Constant(1), groups: candidates },
        };
        Self::FirstHitting(FirstHitting { reveal, draws, commit_threshold: None })
    }
}

impl Propose for SamplerProposals {
    fn steps(&self, masks: usize) -> usize {
        match self {
            Self::Parallel(propose) => propose.steps(masks),
            Self::FirstHitting(propose) => propose.steps(masks),
        }
    }

    fn propose(
        &self,
        step: &Step,
        run: &mut Run<'_, '_>,
        parents: &[Node],
        argmax: bool,
    ) -> Flow<Proposals> {
        match self {
            Self::Parallel(propose) => propose.propose(step, run, parents, argmax),
            Self::FirstHitting(propose) => propose.propose(step, run, parents, argmax),
        }
    }

    fn is_last(&self, step: &Step, proposals: &Proposals) -> bool {
        match self {
            Self::Parallel(propose) => propose.is_last(step, proposals),
            Self::FirstHitting(propose) => propose.is_last(step, proposals),
        }
    }

    fn prediction_time(&self, step: &Step, run: &Run<'_, '_>, child: &Child, slot: usize) -> f64 {
        match self {
            Self::Parallel(propose) => propose.prediction_time(step, run, child, slot),
            Self::FirstHitting(propose) => propose.prediction_time(step, run, child, slot),
        }
    }
}
