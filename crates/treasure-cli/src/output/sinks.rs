//! Where the rows of a run go: the screen, standard output, files.

use std::{collections::HashSet, ops::ControlFlow, path::Path};

use treasure::{Batch, Job, Plan, Reading, Sample, Session, Store, TraceFile, Watch, flags, words};

use super::{print, screen::Screen};
use crate::{Verdict, failure::Outcome, input, interrupt, options::common::Common};

/// The file of rows, with what it holds already said.
pub fn open(batch: &Batch, path: &Path, resume: bool, common: &Common) -> Outcome<Store> {
    let store = batch.store(path, resume)?;
    store.notes().iter().for_each(|note| common.say(note));
    Ok(store)
}

/// The file of traces (`docs/trace.md`), with what was repaired in it said.
pub fn open_trace(path: &Path, resumed: Option<&Store>, common: &Common) -> Outcome<TraceFile> {
    let Some(store) = resumed else { return Ok(TraceFile::create(path)?) };
    let trace = TraceFile::resume(path, store.rows())?;
    trace.notes().iter().for_each(|note| common.say(note));
    Ok(trace)
}

/// Where finished rows go.
pub struct Sinks<'a> {
    /// Talk and format.
    pub common: &'a Common,
    /// How the reward reads.
    pub reading: Reading,
    /// What is shown meanwhile.
    pub screen: &'a Screen,
    /// A file that is filled.
    pub store: Option<Store>,
    /// A file of every step.
    pub trace: Option<TraceFile>,
    /// A file whose text the row's takes the place of.
    pub fill_in: Option<&'a Path>,
}

/// What became of a run.
#[derive(Debug, Default)]
pub struct Tally {
    rows: usize,
    below_target: usize,
    interrupted: bool,
    /// Notes that were said: each once.
    told: HashSet<String>,
    /// Nobody reads standard output any more.
    unread: bool,
}

impl Tally {
    /// How the command ends, said aloud where it is not the best way.
    pub fn verdict(self, common: &Common, resumable: bool) -> Verdict {
        if self.interrupted {
            common.say(match resumable {
                true => "stopped early; continue with --resume",
                false => "stopped early",
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

impl Sinks<'_> {
    /// Runs all jobs and hands their rows on in job order.
    pub fn run(mut self, session: &Session, batch: &Batch, jobs: &[Job]) -> Outcome<Tally> {
        let (screen, cancel) = (self.screen, Some(&interrupt::ASKED));
        let traces = self.trace.is_some();
        let mut tally = Tally::default();
        let mut done = |job: &Job, made: Option<Sample>| -> Outcome<ControlFlow<()>> {
            match made {
                Some(sample) => {
                    let plan = &batch.plans()[job.plan];
                    screen.aside(|| self.write(&sample, plan, &mut tally))?;
                }
                None => tally.interrupted = true,
            }
            // Without a file to fill, nobody needs what nobody reads.
            let kept = self.store.is_some() || self.trace.is_some() || self.fill_in.is_some();
            Ok(match tally.unread && !kept {
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
            session.run_batch(batch, jobs, cancel, traces, &see, &mut done)?;
        }
        screen.clear();
        tally.interrupted |= interrupt::asked();
        Ok(tally)
    }

    fn write(&mut self, sample: &Sample, plan: &Plan, tally: &mut Tally) -> Outcome<()> {
        self.screen.one_done();
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
            if let Some(file) = self.fill_in {
                input::replace(file, &sample.text)?;
            }
        }
        for note in sample.notes.iter().filter(|note| !note.starts_with(words::UNMET)) {
            if tally.told.insert(note.clone()) {
                self.common.say(format!("note: {note}"));
            }
        }
        if !tally.unread {
            let apart = if tally.rows > 0 { "\n" } else { "" };
            tally.unread = !print::line_if_read(match self.common.json {
                true => line,
                false => {
                    format!("{apart}{}", sample.lines(self.reading, plan.samples > 1))
                }
            })?;
        }
        if let Some(advice) = flags::unmet(sample) {
            self.common.say(format!("note: {advice}"));
        }
        tally.rows += 1;
        tally.interrupted |= sample.is_interrupted();
        let missed = plan.target_reward.is_some_and(|target| sample.reward < target);
        tally.below_target += usize::from(missed);
        Ok(())
    }
}
