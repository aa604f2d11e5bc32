//! Where the rows of a run go: the screen, standard output, files.

use std::{collections::HashSet, ops::ControlFlow, path::Path};

use treasure::{Batch, Job, Plan, Sample, Session, Store, TraceFile, Watch, words};

use super::{Screen, print};
use crate::{Verdict, failure::Outcome, input, interrupt, options::Common, wording};

/// Where finished rows go.
pub struct Sinks<'a> {
    /// Talk and format.
    pub common: &'a Common,
    /// What is shown meanwhile.
    pub screen: Screen,
    /// A file that is filled.
    pub out: Option<&'a Path>,
    /// Whether an earlier run began it.
    pub resume: bool,
    /// A file of every step (`docs/trace.md`).
    pub trace: Option<&'a Path>,
    /// A file whose text the row's takes the place of.
    pub fill_in: Option<&'a Path>,
    /// Which part of the prompts it is, and of how many.
    pub shard: (usize, usize),
}

/// The open files of a run, and what became of it so far.
struct Run<'a> {
    sinks: &'a Sinks<'a>,
    store: Option<Store>,
    trace: Option<TraceFile>,
    rows: usize,
    below_target: usize,
    interrupted: bool,
    /// Notes that were said: each once.
    told: HashSet<String>,
    /// Nobody reads standard output any more.
    unread: bool,
}

impl Sinks<'_> {
    /// Runs what the files lack and hands the rows on in job order; what was repaired in a file is said.
    pub fn run(mut self, session: &Session, batch: &Batch) -> Outcome<Verdict> {
        let say = |notes: Vec<String>| notes.iter().for_each(|note| self.common.say(note));
        let store = self.out.map(|path| batch.store(path, self.resume)).transpose()?;
        store.iter().for_each(|store| say(store.notes()));
        let open = |path| match store.as_ref().filter(|_| self.resume) {
            Some(store) => TraceFile::resume(path, store.rows()),
            None => TraceFile::create(path),
        };
        let trace = self.trace.map(open).transpose()?;
        trace.iter().for_each(|trace| say(trace.notes()));
        let jobs = batch.jobs(self.shard, store.as_ref());
        interrupt::listen(self.common.quiet, "the best so far");
        self.screen = self.screen.about(jobs.len());
        let (screen, cancel, traces) = (&self.screen, Some(&interrupt::ASKED), trace.is_some());
        // Without a file to fill, nobody needs what nobody reads.
        let kept = store.is_some() || traces || self.fill_in.is_some();
        let told = HashSet::new();
        let (rows, below_target, interrupted, unread) = (0, 0, false, false);
        let mut run =
            Run { sinks: &self, store, trace, rows, below_target, interrupted, told, unread };
        let mut done = |job: &Job, made: Option<Sample>| -> Outcome<ControlFlow<()>> {
            match made {
                Some(sample) => screen.aside(|| run.write(&sample, &batch.plans()[job.plan]))?,
                None => run.interrupted = true,
            }
            Ok(match run.unread && !kept {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        };
        if screen.watches() {
            for job in jobs.iter().take_while(|_| !interrupt::asked()) {
                let mut show = |frame: &treasure::Frame| screen.frame(frame);
                let look =
                    Watch { frames: Some(&mut show), cancel, trace: traces, ..Watch::default() };
                let made = match session.run(&batch.plans()[job.plan], job, look) {
                    Err(error) if error.is_interrupted() => None,
                    made => Some(made?),
                };
                if done(job, made)?.is_break() {
                    break;
                }
            }
        } else {
            let see = |_: usize, event: &treasure::core::Event| screen.event(event);
            session.run_batch(batch, &jobs, cancel, traces, &see, &mut done)?;
        }
        screen.clear();
        Ok(run.verdict())
    }
}

impl Run<'_> {
    fn write(&mut self, sample: &Sample, plan: &Plan) -> Outcome<()> {
        let Sinks { common, screen, fill_in, .. } = self.sinks;
        screen.one_done();
        let line = serde_json::to_string(sample)?;
        // A trace stands before its row, so that no row is without one; a row that is not stored needs none.
        let made_again = self.store.is_some() && sample.is_interrupted();
        if let (Some(file), Some(trace), false) = (&mut self.trace, &sample.trace, made_again) {
            file.write(trace)?;
        }
        // A text that was cut short is shown but not stored: --resume makes it anew.
        if !sample.is_interrupted() {
            if let Some(store) = &mut self.store {
                store.append((sample.prompt_index, sample.sample), &line)?;
            }
            if let Some(file) = fill_in {
                input::replace(file, &sample.text)?;
            }
        }
        for note in sample.notes.iter().filter(|note| !note.starts_with(words::UNMET)) {
            if self.told.insert(note.clone()) {
                common.say(format!("note: {note}"));
            }
        }
        if !self.unread {
            let apart = if self.rows > 0 { "\n" } else { "" };
            self.unread = !print::line_if_read(match common.json {
                true => line,
                false => format!("{apart}{}", sample.lines(plan.reading(), plan.samples > 1)),
            })?;
        }
        if let Some(advice) = wording::unmet(sample) {
            common.say(format!("note: {advice}"));
        }
        self.rows += 1;
        self.interrupted |= sample.is_interrupted();
        let missed = plan.target_reward.is_some_and(|target| sample.reward < target);
        self.below_target += usize::from(missed);
        Ok(())
    }

    /// How the command ends, said aloud where it is not the best way.
    fn verdict(self) -> Verdict {
        let common = self.sinks.common;
        if self.interrupted || interrupt::asked() {
            common.say(match self.store {
                Some(_) => "stopped early; continue with --resume",
                None => "stopped early",
            });
            return Verdict::Interrupted;
        }
        if self.below_target > 0 {
            common.say(format!("target reward missed by {} of {}", self.below_target, self.rows));
            return Verdict::Missed;
        }
        Verdict::Done
    }
}
