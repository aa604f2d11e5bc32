//! Runs the cells of a plan, one after the other, into a store.
//!
//! Guarantee: a cell that fails stops the run with an error that names it, one that is interrupted
//! leaves no row; what was finished stays.

pub mod calibrate;
pub mod figures;
mod progress;
pub mod search;

use std::{path::Path, sync::atomic::AtomicBool};

pub use progress::{Progress, duration};
use treasure::{
    Job, Sample, Session, SessionOptions, Watch,
    models::Dtype,
    rewards::{Result as RewardResult, TextReward},
};

use crate::{
    Error, Result,
    config::Kind,
    plan::{Cell, NO_REWARD, Plan, Variant},
    row::{Row, Timing},
    shard::Shard,
    store::Store,
};

/// What a run says while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// A line that stays.
    Line(&'a str),
    /// How far it is; the next one may take its place.
    Progress(&'a str),
}

/// How a run and its caller talk: the library itself neither prints nor listens for signals.
pub struct Talk<'a> {
    /// Hears what is said.
    pub say: &'a mut dyn FnMut(Said<'_>),
    /// Interrupts the run when set: the sample in flight is dropped, finished ones stay.
    pub cancel: Option<&'a AtomicBool>,
}

/// Everything is worth 0: the reward of cells in which nothing is optimised.
struct Indifferent;

impl TextReward for Indifferent {
    fn name(&self) -> &str {
        NO_REWARD.trim_start_matches("own:")
    }

    fn score(&self, texts: &[&str]) -> RewardResult<Vec<f64>> {
        Ok(vec![0.0; texts.len()])
    }
}

/// A plan on its models: each set of weights once, and nothing remembered from sample to sample, so
/// that seconds are those of a sample on its own.
pub struct Bench<'a> {
    session: Session,
    plan: &'a Plan,
    dtype: Dtype,
    cancel: Option<&'a AtomicBool>,
}

impl<'a> Bench<'a> {
    /// A plan on the models of a session; `dtype` is how the denoiser is held.
    pub fn new(
        session: &Session,
        plan: &'a Plan,
        dtype: Dtype,
        cancel: Option<&'a AtomicBool>,
    ) -> Self {
        let options = SessionOptions { cache_bytes: 0, ..session.options().clone() };
        let session = session.with_options(options);
        session.add_reward(Indifferent);
        Self { session, plan, dtype, cancel }
    }

    /// What a variant asks of the session, for one reward or for none.
    fn asked(&self, variant: &Variant, reward: Option<usize>) -> Result<treasure::Plan> {
        let mut asked = self.plan.asked(variant, reward)?;
        asked.load.dtype = self.dtype;
        Ok(asked)
    }

    /// One sample, or none if it was interrupted.
    fn sample<'w>(
        &self,
        asked: &treasure::Plan,
        cell: (usize, usize),
        watch: Watch<'w>,
    ) -> Result<Option<Sample>>
    where
        'a: 'w,
    {
        let prompt = self.plan.prompts[cell.0].clone();
        let job = Job { prompt, prompt_index: cell.0, sample: cell.1, ..Job::default() };
        let made = self.session.run(asked, &job, Watch { cancel: self.cancel, ..watch });
        let made = unless_interrupted(made.map(Some).map_err(Error::from))?;
        Ok(made.filter(|sample| !sample.is_interrupted()))
    }

    /// Runs one cell; nothing if it was interrupted. Traces go into the folder of the run.
    pub fn cell(&self, cell: &Cell, fingerprint: &str, directory: &Path) -> Result<Option<Row>> {
        let row = match self.plan.kind {
            Kind::Search => {
                let traces = self.plan.traced(cell).then_some(directory);
                search::run(self, cell, traces)
            }
            Kind::Branching => figures::branching(self, cell),
            Kind::Variation => figures::variation(self, cell),
        };
        Ok(unless_interrupted(row)?.map(|row| Row { plan: fingerprint.into(), ..row }))
    }

    /// A row of a cell without its contents.
    fn row(&self, cell: &Cell, timing: Timing) -> Row {
        Row {
            id: cell.id.clone(),
            plan: String::new(),
            variant: self.plan.variants[cell.variant].id.clone(),
            prompt: cell.prompt,
            continuation: cell.continuation,
            samples: Vec::new(),
            branching: Vec::new(),
            variation: Vec::new(),
            timing: Some(timing),
        }
    }
}

/// An interruption before there was any text is no failure.
fn unless_interrupted<T>(made: Result<Option<T>>) -> Result<Option<T>> {
    match made {
        Err(Error::Search(error)) if error.is_interrupted() => Ok(None),
        other => other,
    }
}

/// What a call of [`all`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Samples made.
    pub samples: usize,
    /// Whether it was interrupted before the last.
    pub interrupted: bool,
}

/// Runs the cells of a shard that the store lacks.
pub fn all(
    bench: &Bench<'_>,
    shard: Shard,
    store: &mut Store,
    directory: &Path,
    say: &mut dyn FnMut(Said<'_>),
) -> Result<Ran> {
    let plan = bench.plan;
    let cells = shard.cells(plan);
    let todo: Vec<&Cell> = cells.iter().filter(|cell| !store.is_finished(&cell.id)).collect();
    let weight = todo.iter().map(|cell| plan.weight(cell)).sum();
    let mut progress = Progress::new(cells.len(), cells.len() - todo.len(), weight);
    for (samples, next) in todo.iter().enumerate() {
        let row = bench.cell(next, store.fingerprint(), directory).map_err(|error| {
            Error::Sample { id: next.id.clone(), kept: store.kept(), source: Box::new(error) }
        })?;
        let Some(row) = row else { return Ok(Ran { samples, interrupted: true }) };
        store.append(&row)?;
        say(Said::Progress(&progress.done(next, &row, plan.weight(next))));
    }
    Ok(Ran { samples: todo.len(), interrupted: false })
}
