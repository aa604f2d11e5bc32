//! Many samples: in flight together, written in order, stopped by Ctrl-C, continued by `--resume`.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use treasure_core::{Denoiser, Reward, together};

use super::{
    follow::Screen,
    row::{Reading, Row},
    sample::{Job, Sampled, Setup, run_sample},
};
use crate::{
    failure::Outcome,
    interrupt,
    options::common::Common,
    output::{print, store::Store, trace::TraceFile},
};

/// Most samples in flight: enough to fill the matrix kernels, few enough to see results soon.
const IN_FLIGHT: usize = 8;

/// Where finished rows go.
pub struct Sinks<'a> {
    /// What every command has.
    pub common: &'a Common,
    /// How the reward reads best.
    pub reading: Reading,
    /// The `--out` file.
    pub store: Option<Store>,
    /// The `--trace` file.
    pub trace: Option<TraceFile>,
    /// The progress line or the view of the text.
    pub screen: &'a Screen,
    /// Whether a prompt gets several samples.
    pub several_samples: bool,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Rows made.
    pub rows: usize,
    /// Rows below the target reward.
    pub below_target: usize,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
}

/// The rows that came before their turn, and those that were written.
struct Queue<'a> {
    sinks: Sinks<'a>,
    waiting: BTreeMap<usize, Outcome<Option<Sampled>>>,
    next: usize,
    tally: Tally,
    failure: Outcome<()>,
}

/// Runs all jobs and hands their rows on in job order.
pub fn run_all(
    setup: &Setup,
    denoiser: &dyn Denoiser,
    reward: &dyn Reward,
    jobs: &[Job<'_>],
    sinks: Sinks<'_>,
) -> Outcome<Tally> {
    // With a deadline samples must not wait for one another; a view shows one text at a time.
    let alone = setup.plan.max_seconds.is_some() || sinks.screen.watches();
    let in_flight = if alone { 1 } else { IN_FLIGHT };
    let screen = sinks.screen;
    let target = setup.plan.target_reward;
    let failed = AtomicBool::new(false);
    screen.begin(jobs.len());
    let queue = Mutex::new(Queue {
        sinks,
        waiting: BTreeMap::new(),
        next: 0,
        tally: Tally::default(),
        failure: Ok(()),
    });
    let batch: Vec<(usize, &Job<'_>)> = jobs.iter().enumerate().collect();
    let run = |&(index, job): &(usize, &Job<'_>), denoiser: &dyn Denoiser, reward: &dyn Reward| {
        let made = if failed.load(Ordering::SeqCst) || interrupt::asked() {
            Ok(None)
        } else {
            let made = run_sample(setup, job, denoiser, reward, screen);
            screen.one_done();
            made
        };
        if made.is_err() {
            failed.store(true, Ordering::SeqCst);
        }
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.insert(index, made);
        queue.write_ready(target);
        if queue.failure.is_err() {
            failed.store(true, Ordering::SeqCst);
        }
    };
    together(denoiser, reward, in_flight, &batch, run, |_, ()| {});
    screen.clear();
    let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    queue.failure.map(|()| queue.tally)
}

impl Queue<'_> {
    /// Hands on every row whose turn it is.
    fn write_ready(&mut self, target: Option<f64>) {
        while let Some(made) = self.waiting.remove(&self.next) {
            self.next += 1;
            if self.failure.is_err() {
                continue;
            }
            self.failure = match made {
                Ok(Some(sampled)) => self.write(&sampled, target),
                Ok(None) => {
                    self.tally.interrupted |= interrupt::asked();
                    Ok(())
                }
                Err(failure) => Err(failure),
            };
        }
    }

    fn write(&mut self, sampled: &Sampled, target: Option<f64>) -> Outcome<()> {
        let Sinks { common, store, trace, screen, .. } = &mut self.sinks;
        let row = &sampled.row;
        let line = serde_json::to_string(row)?;
        screen.clear();
        if !sampled.interrupted {
            // A text that was cut short is shown but not stored: --resume makes it anew.
            if let Some(store) = store {
                store.append((row.prompt_index, row.sample), &line)?;
            }
        }
        if let (Some(file), Some(trace)) = (trace, &sampled.trace) {
            file.write(trace)?;
        }
        for note in &sampled.notes {
            if self.tally.rows == 0 {
                common.say(format!("note: {note}"));
            }
        }
        if common.json {
            print::line(line)?;
        } else {
            if self.tally.rows > 0 {
                print::line("")?;
            }
            print::line(row.lines(self.sinks.reading, self.sinks.several_samples))?;
        }
        self.tally.rows += 1;
        self.tally.interrupted |= sampled.interrupted;
        self.tally.below_target += usize::from(missed(row, target));
        Ok(())
    }
}

fn missed(row: &Row, target: Option<f64>) -> bool {
    target.is_some_and(|target| row.reward < target)
}
