//! One sample: a search from a start state to a finished row.

mod row;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use treasure_core::{
    Clock, Constraint, Deadline, Denoiser, Error as CoreError, Guided, Limits, NoiseSchedule,
    Problem, Progress, Run, Scoring, Seat, StopReason, TraceWriter,
};
use treasure_rewards::{Composite, Pipeline, TextOptions, TextReward};
use treasure_text::{Rules, Start, TextModel};

use crate::{
    Error, Estimate, Plan, Result, Sample,
    frame::{Follower, Show, Tell},
    sample_key,
};

/// One sample to make.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Which of the plans of a run it follows.
    pub plan: usize,
    /// The prompt; a template stands in the plan.
    pub prompt: String,
    /// Which prompt of the run.
    pub prompt_index: usize,
    /// Which sample of the prompt.
    pub sample: usize,
    /// Fields of the caller's own, carried through to the row.
    pub extra: Map<String, Value>,
}

/// Who looks on while a sample is made.
#[derive(Default)]
pub struct Watch<'a> {
    /// Sees the text form; `Break` stops the search and keeps the best.
    pub frames: Option<&'a mut Show<'a>>,
    /// Sees every event of the search, those of its nodes if `nodes` is set.
    pub events: Option<&'a mut Tell<'a>>,
    /// Whether `events` looks at nodes, which cost more to tell than steps.
    pub nodes: bool,
    /// Stops the search when set, within a step.
    pub cancel: Option<&'a AtomicBool>,
    /// Whether the sample carries a trace.
    pub trace: bool,
    /// Whether the sample carries its tree.
    pub tree: bool,
}

/// All that the samples of a plan share.
pub(crate) struct Parts {
    pub plan: Plan,
    pub estimate: Estimate,
    pub plan_row: Value,
    pub model: Arc<dyn TextModel>,
    pub reward: Arc<Composite>,
    pub text: TextOptions,
    pub proxy: Option<Arc<Composite>>,
    pub judges: Vec<(String, Arc<Composite>)>,
    pub fluency: Option<Arc<dyn TextReward>>,
    pub rules: Option<Arc<Rules>>,
}

/// The wall clock since a sample began.
struct WallClock(Instant);

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Parts {
    /// The text that the randomness of a job hangs on.
    pub(crate) fn start_text<'a>(&'a self, prompt: &'a str) -> std::borrow::Cow<'a, str> {
        match (&self.plan.given, &self.plan.template) {
            (Some(given), _) => given.text.as_str().into(),
            (None, Some(template)) => template.canonical().into(),
            (None, None) => prompt.into(),
        }
    }

    fn pipeline(&self, reward: &Arc<Composite>, start: &Start) -> Pipeline {
        let text = self.model.clone();
        Pipeline::new(reward.clone(), text, start.layout.clone(), start.ends.clone())
            .with_options(self.text)
    }

    /// Makes one sample, driven by `drive`. With a seat its model and reward calls run with those of
    /// the others at the table; it is given up before judges are asked, so that nobody waits for them.
    pub(crate) fn make(
        &self,
        job: &Job,
        watch: Watch<'_>,
        seat: Option<Seat>,
        drive: &mut dyn FnMut(&mut Run<'_, '_>) -> Result<()>,
    ) -> Result<Sample> {
        let began = Instant::now();
        let clock = WallClock(began);
        let plan = &self.plan;
        let start = plan.start(&*self.model, &job.prompt)?;
        let pipeline = self.pipeline(&self.reward, &start);
        let proxy = self.proxy.as_ref().map(|proxy| self.pipeline(proxy, &start));
        let model: Arc<dyn Denoiser> = self.model.clone();
        let seated = (seat.as_ref())
            .map(|seat| (seat.denoiser(model.clone()), seat.reward(self.reward.clone())));
        let (denoiser, scoring): (&dyn Denoiser, Scoring<'_>) = match &seated {
            Some((denoiser, reward)) => (denoiser, Scoring { reader: &pipeline, reward }),
            None => (&*model, (&pipeline).into()),
        };
        let guided = self.guided(denoiser, &start);
        let denoiser = guided.as_ref().map_or(denoiser, |guided| guided as &dyn Denoiser);
        let rewards = (scoring, proxy.as_ref().map(Scoring::from));
        let schedule = NoiseSchedule::default();
        let problem = self.problem(&start, &schedule, denoiser, rewards, &clock, watch.cancel)?;
        let trace = watch.trace.then(|| self.trace(job, &start));
        let told = (watch.events, watch.nodes);
        let mut follower = Follower::new(&*self.model, &start.ends, watch.frames, told, trace);
        let key = sample_key(plan.seed, &self.start_text(&job.prompt), job.sample as u64);
        let mut run = problem.run(plan.method.search(), key, &mut follower)?;
        if watch.tree {
            run = run.with_tree();
        }
        drive(&mut run)?;
        let found = run.finish()?;
        let seconds = match &seat {
            Some(seat) => seat.seconds(),
            None => began.elapsed().as_secs_f64(),
        };
        drop(seat);
        let trace = follower.into_trace()?;
        let mut sample = self.row(job, &start, &pipeline, found, seconds)?;
        sample.trace = trace;
        Ok(sample)
    }

    /// The problem of this plan at a start.
    fn problem<'a>(
        &'a self,
        start: &Start,
        schedule: &'a NoiseSchedule,
        denoiser: &'a dyn Denoiser,
        (scoring, proxy): (Scoring<'a>, Option<Scoring<'a>>),
        clock: &'a WallClock,
        cancel: Option<&'a AtomicBool>,
    ) -> Result<Problem<'a>> {
        let plan = &self.plan;
        let limits = Limits {
            max_nfe: plan.max_nfe,
            max_reward_calls: plan.max_reward_calls,
            deadline: plan
                .max_seconds
                .map(|seconds| Deadline { clock, at: Duration::from_secs_f64(seconds) }),
            target_reward: plan.target_reward,
            cancel,
        };
        let (state, constraint) = (start.state.clone(), self.constraint(start)?);
        let problem = Problem::new(state, schedule, denoiser, scoring, constraint, limits)?
            .with_ends(&start.ends)
            .with_answer(plan.answer);
        let problem = match &plan.given {
            Some(given) => problem.with_given(&given.tokens(&*self.model, start)?)?,
            None => problem,
        };
        Ok(match proxy {
            Some(proxy) => problem.with_proxy(proxy),
            None => problem,
        })
    }

    /// The denoiser under guidance, if the plan asks for it.
    fn guided<'a>(&self, denoiser: &'a dyn Denoiser, start: &Start) -> Option<Guided<'a>> {
        let scale = self.plan.cfg_scale;
        (scale > 0.0).then(|| Guided::new(denoiser, &start.state, scale))
    }

    /// Lends the problem of this plan at a prompt, with the way from its sequences to text.
    pub(crate) fn pose<T>(
        &self,
        prompt: &str,
        cancel: Option<&AtomicBool>,
        ask: impl FnOnce(&Problem<'_>, &Pipeline) -> T,
    ) -> Result<T> {
        let start = self.plan.start(&*self.model, prompt)?;
        let pipeline = self.pipeline(&self.reward, &start);
        let proxy = self.proxy.as_ref().map(|proxy| self.pipeline(proxy, &start));
        let rewards = (Scoring::from(&pipeline), proxy.as_ref().map(Scoring::from));
        let (clock, schedule) = (WallClock(Instant::now()), NoiseSchedule::default());
        let guided = self.guided(&*self.model, &start);
        let model =
            guided.as_ref().map_or(&*self.model as &dyn Denoiser, |guided| guided as &dyn Denoiser);
        let problem = self.problem(&start, &schedule, model, rewards, &clock, cancel)?;
        Ok(ask(&problem, &pipeline))
    }

    /// What may be placed where.
    fn constraint(&self, start: &Start) -> Result<Arc<dyn Constraint>> {
        let patterns = match &self.rules {
            Some(rules) => rules.constraint(start, self.plan.min_length)?,
            None => None,
        };
        Ok(match patterns {
            Some(patterns) => Arc::new(patterns),
            None => Arc::new(start.bans.clone()),
        })
    }

    /// A trace that begins with what only the caller knows, token texts included.
    fn trace(&self, job: &Job, start: &Start) -> TraceWriter<Vec<u8>> {
        let mut trace = TraceWriter::new(Vec::new());
        trace.line(&json!({
            "event": "sample",
            "prompt_index": job.prompt_index,
            "sample": job.sample,
            "prompt": start.prompt_text(),
            "plan": self.plan_row,
        }));
        trace
    }
}

/// Drives a run to its end.
pub(crate) fn to_the_end(run: &mut Run<'_, '_>) -> Result<()> {
    while run.step()? == Progress::More {}
    Ok(())
}

impl Error {
    /// Whether a search was interrupted before there was any text, which is no failure of its own.
    pub fn is_interrupted(&self) -> bool {
        let source = std::error::Error::source(self);
        matches!(
            source.and_then(|source| source.downcast_ref::<CoreError>()),
            Some(CoreError::Stopped {
                reason: StopReason::Observer | StopReason::Cancelled | StopReason::Caller,
                ..
            })
        )
    }
}
