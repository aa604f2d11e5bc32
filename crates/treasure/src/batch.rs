//! One request on many prompts and templates: plans, jobs, a part of them, rows in the order of the
//! prompts, and a file of rows that a killed run can continue.

use std::{collections::BTreeMap, ops::ControlFlow, path::Path, sync::atomic::AtomicBool};

use serde_json::Value;
use treasure_core::Event;

use crate::{Entry, Expected, Job, Plan, Request, Result, Sample, Session, Store, Watch};

/// Many texts of one request. All prompts share one plan; each template and each finished text has its own.
#[derive(Clone, Debug)]
pub struct Batch {
    plans: Vec<Plan>,
    starts: Vec<Start>,
}

/// Where a text begins.
#[derive(Clone, Debug)]
struct Start {
    entry: Entry,
    plan: usize,
    /// What its rows begin with.
    begins: String,
}

impl Batch {
    /// The plans of a request at every entry.
    ///
    /// ```
    /// use treasure::{Batch, Entry, Request};
    ///
    /// let lines = r#"{"prompt": "The dog", "id": 7}
    ///     {"template": "The [MASK:2] ran."}"#;
    /// let request = Request { samples: Some(2), ..Request::default() };
    /// let batch = Batch::new(&request, Entry::read_lines(lines, "prompts.jsonl")?)?;
    /// assert_eq!((batch.plans().len(), batch.jobs((0, 1), None).len()), (2, 4));
    /// assert_eq!(batch.jobs((1, 2), None)[0].prompt_index, 1);
    /// # Ok::<(), treasure::Error>(())
    /// ```
    pub fn new(request: &Request, entries: Vec<Entry>) -> Result<Self> {
        // What is kept is of a text: where all are finished ones, no plan is without.
        let finished = !entries.is_empty() && entries.iter().all(|entry| entry.text.is_some());
        let keep = request.keep.clone().filter(|_| !finished);
        let first = Plan::new(&Request { keep, ..request.clone() })?;
        let constrained = first.is_constrained();
        let (mut plans, mut starts) = (vec![first], Vec::new());
        // Among prompts a length is theirs; a template alone says that it has its own.
        let mut own = request.clone();
        if entries.iter().any(|entry| entry.template.is_none() && entry.text.is_none()) {
            (own.length, own.min_length) = (None, None);
        }
        for entry in entries {
            let mut plan = 0;
            if entry.template.is_some() || entry.text.is_some() {
                let (template, text) = (entry.template.clone(), entry.text.clone());
                // What was written from a prompt goes on from it; a constraint is on the whole text.
                let prompt = entry.prompt.clone().filter(|_| text.is_some() && !constrained);
                plan = plans.len();
                plans.push(Plan::new(&Request { prompt, template, text, ..own.clone() })?);
            }
            let begins = plans[plan].begins(entry.prompt.as_deref().unwrap_or(""))?.to_owned();
            starts.push(Start { entry, plan, begins });
        }
        Ok(Self { plans, starts })
    }

    /// Every plan that a job may follow.
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// The plan of the first text.
    pub fn first(&self) -> &Plan {
        &self.plans[self.starts.first().map_or(0, |start| start.plan)]
    }

    /// A file for the rows: a new one, or one that an earlier run of this batch began.
    pub fn store(&self, path: &Path, resume: bool) -> Result<Store> {
        if !resume {
            return Store::create(path);
        }
        let rows: Vec<Value> = self.plans.iter().map(Plan::to_value).collect();
        let prompts: Vec<&str> = self.starts.iter().map(|start| start.begins.as_str()).collect();
        let plans: Vec<&Value> = self.starts.iter().map(|start| &rows[start.plan]).collect();
        Store::resume(path, Expected { prompts: &prompts, plans: &plans })
    }

    /// The samples of part `i` of `n` of the prompts that a file does not have yet.
    pub fn jobs(&self, (i, n): (usize, usize), store: Option<&Store>) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (prompt_index, start) in self.starts.iter().enumerate().skip(i).step_by(n.max(1)) {
            for sample in 0..self.plans[start.plan].samples {
                let identity = (prompt_index as u64, sample as u64);
                if store.is_none_or(|store| !store.has(identity)) {
                    jobs.push(Job {
                        plan: start.plan,
                        prompt: start.entry.prompt.clone().unwrap_or_default(),
                        prompt_index,
                        sample,
                        extra: start.entry.extra.clone(),
                    });
                }
            }
        }
        jobs
    }
}

impl Session {
    /// Makes all samples of a batch's jobs, several at a time; `done` gets them in the order of the
    /// jobs, none where the search was interrupted before there was a text. Its failure ends the run.
    pub fn run_batch<E: From<crate::Error> + Send>(
        &self,
        batch: &Batch,
        jobs: &[Job],
        cancel: Option<&AtomicBool>,
        traces: bool,
        watch: &(dyn Fn(usize, &Event) -> ControlFlow<()> + Sync),
        mut done: impl FnMut(&Job, Option<Sample>) -> Result<ControlFlow<()>, E> + Send,
    ) -> Result<(), E> {
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        let mut failed: Result<(), E> = Ok(());
        let mut hand_on = |index: usize, made: Result<Sample>| {
            match made {
                Ok(sample) => waiting.insert(index, Some(sample)),
                Err(error) if error.is_interrupted() => waiting.insert(index, None),
                Err(error) => {
                    failed = Err(error.into());
                    return ControlFlow::Break(());
                }
            };
            while let Some(made) = waiting.remove(&next) {
                match done(&jobs[next], made) {
                    Ok(ControlFlow::Continue(())) => next += 1,
                    Ok(stop) => return stop,
                    Err(error) => {
                        failed = Err(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        };
        let look = Watch { cancel, trace: traces, ..Watch::default() };
        self.run_all(batch.plans(), jobs, &look, watch, &mut hand_on)?;
        failed
    }
}
