//! Many samples, several searches at a time.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use treasure_core::Event;

use super::{Session, lock};
use crate::{
    Error, Plan, Result, Sample,
    run::{Job, Watch, to_the_end},
    stagger::Stagger,
};

impl Session {
    /// Makes all samples of some plans, several at a time; `done` sees each as it finishes, in the order
    /// of completion, and stops what has not begun by `Break`.
    ///
    /// Starts are staggered, so that a run that is cut short has about its share of finished rows. `look`
    /// holds for each of them, but its frames and events: `watch` sees the events of all.
    pub fn run_all(
        &self,
        plans: &[Plan],
        jobs: &[Job],
        look: &Watch<'_>,
        watch: &(dyn Fn(usize, &Event) -> ControlFlow<()> + Sync),
        done: &mut (dyn FnMut(usize, Result<Sample>) -> ControlFlow<()> + Send),
    ) -> Result<()> {
        let Watch { cancel, nodes, trace, tree, .. } = *look;
        let parts = plans.iter().map(|plan| self.parts(plan)).collect::<Result<Vec<_>>>()?;
        // No more at once than fit this machine.
        let fit = parts.iter().map(|parts| parts.estimate.fit()).min().unwrap_or(1);
        let workers = self.inner.options.in_flight.min(fit).clamp(1, jobs.len().max(1));
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let stagger = Stagger::new(workers);
        let done = Mutex::new(done);
        let work = |worker: usize| {
            stagger.wait(worker);
            loop {
                let index = next.fetch_add(1, Ordering::SeqCst);
                let cancelled = cancel.is_some_and(|cancel| cancel.load(Ordering::SeqCst));
                let Some(job) = jobs.get(index).filter(|_| !cancelled) else { break };
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let mut see = |event: &Event| {
                    if let (0, Event::Step(step)) = (worker, event) {
                        stagger.reached((step.step + 1) as f64 / step.steps.max(1) as f64);
                    }
                    watch(index, event)
                };
                let look =
                    Watch { frames: None, events: Some(&mut see), nodes, cancel, trace, tree };
                let seat = (workers > 1).then(|| self.inner.batcher.join());
                let made = match (parts.get(job.plan), seat) {
                    (Some(parts), None) => {
                        self.alone(&parts.plan, || parts.make(job, look, None, &mut to_the_end))
                    }
                    (Some(parts), seat) => parts.make(job, look, seat, &mut to_the_end),
                    (None, _) => Err(Error::request(format!("job: there is no plan {}", job.plan))),
                };
                stagger.reached(1.0);
                let mut done = lock(&done);
                if done(index, made).is_break() {
                    stop.store(true, Ordering::SeqCst);
                }
            }
            stagger.reached(1.0);
        };
        thread::scope(|scope| {
            for worker in 1..workers {
                let work = &work;
                scope.spawn(move || work(worker));
            }
            work(0);
        });
        Ok(())
    }

    /// Makes all samples and hands them back in order; the first failure ends the run.
    pub fn collect(&self, plan: &Plan, jobs: &[Job]) -> Result<Vec<Sample>> {
        let mut made = BTreeMap::new();
        let mut failed = None;
        let mut keep = |index: usize, sample: Result<Sample>| match sample {
            Ok(sample) => {
                made.insert(index, sample);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        };
        self.run_all(
            std::slice::from_ref(plan),
            jobs,
            &Watch::default(),
            &|_, _| ControlFlow::Continue(()),
            &mut keep,
        )?;
        match failed {
            Some(error) => Err(error),
            None => Ok(made.into_values().collect()),
        }
    }
}
