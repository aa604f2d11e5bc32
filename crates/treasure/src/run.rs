//! One sample: a search from a start state to a finished row.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use treasure_core::{
    AnswerKind, Clock, Constraint, Deadline, Denoiser, Error as CoreError, Guided, Limits,
    NoiseSchedule, Outcome, Problem, Progress, Reward, Run, Seat, StopReason, TraceWriter, until,
};
use treasure_rewards::{Composite, Pipeline, TextOptions, TextReward, metrics};
use treasure_text::{Conventions, Rules, Start, TextModel};

use crate::{
    Cost, Error, ErrorKind, Estimate, HeldOut, Plan, ROW_VERSION, Result, Sample,
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
    /// Sees every event of the search.
    pub events: Option<&'a mut Tell<'a>>,
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

/// How long rewards and judges may take for the last text of a search that was told to stop.
const FAREWELL: Duration = Duration::from_millis(350);

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
        let seated = seat.as_ref().map(|seat| {
            let shared: Arc<dyn Reward> = self.reward.clone();
            (seat.denoiser(model.clone()), seat.reward(&pipeline, shared))
        });
        let asked: (&dyn Denoiser, &dyn Reward) = match &seated {
            Some((denoiser, reward)) => (denoiser, reward),
            None => (&*model, &pipeline),
        };
        let guided = self.guided(asked.0, &start);
        let asked = (guided.as_ref().map_or(asked.0, |guided| guided as &dyn Denoiser), asked.1);
        let proxy = proxy.as_ref().map(|proxy| proxy as &dyn Reward);
        let schedule = NoiseSchedule::default();
        let problem = self.problem(&start, &schedule, asked, proxy, &clock, watch.cancel)?;
        let trace = watch.trace.then(|| self.trace(job, &start));
        let mut follower =
            Follower::new(&*self.model, &start.ends, watch.frames, watch.events, trace);
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
        (denoiser, reward): (&'a dyn Denoiser, &'a dyn Reward),
        proxy: Option<&'a dyn Reward>,
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
        let problem = Problem::new(state, schedule, denoiser, reward, constraint, limits)?
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
        let proxy = proxy.as_ref().map(|proxy| proxy as &dyn Reward);
        let (clock, schedule) = (WallClock(Instant::now()), NoiseSchedule::default());
        let guided = self.guided(&*self.model, &start);
        let model =
            guided.as_ref().map_or(&*self.model as &dyn Denoiser, |guided| guided as &dyn Denoiser);
        let asked: (&dyn Denoiser, &dyn Reward) = (model, &pipeline);
        let problem = self.problem(&start, &schedule, asked, proxy, &clock, cancel)?;
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

    fn row(
        &self,
        job: &Job,
        start: &Start,
        pipeline: &Pipeline,
        found: Outcome,
        seconds: f64,
    ) -> Result<Sample> {
        let plan = &self.plan;
        let rendered = pipeline.render(&found.tokens)?;
        let hurry = Hurry::new(found.stopped);
        let (reward, rewards) = self.rewards(pipeline, &found, &hurry)?;
        let continuation = rendered.continuation().to_string();
        if let (Some(rule), Some(rules)) = (&plan.rule, &self.rules)
            && !rules.accept(rule, &continuation)?
        {
            // The tables say otherwise, so decoding did something that they do not know.
            return Err(Error::new(
                ErrorKind::Search,
                format!("constraint: expected a text that satisfies it, got {continuation:?}"),
            )
            .with_hint("please report the tokenizer and the constraint"));
        }
        let mut notes: Vec<String> =
            found.notes.iter().map(|note| format!("{}: {}", note.what, note.message)).collect();
        let held_out = match hurry.within(|| self.held_out(&rendered.text, &continuation)) {
            Err(error) if hurry.is_why(&error) => {
                notes.push("held-out judges: not asked, since the search was stopped".into());
                None
            }
            held_out => held_out?,
        };
        notes.extend(self.cut_short(&rendered.text, held_out.is_some())?);
        Ok(Sample {
            version: ROW_VERSION,
            prompt: rendered.text[..rendered.prompt_bytes].to_string(),
            continuation,
            // What satisfies a constraint is whole, however long.
            cut: plan.rule.is_none()
                && !start.ends.is_empty()
                && rendered.tokens.len() >= start.state.n_masked(),
            text: rendered.text,
            tokens: rendered.tokens,
            reward,
            reward_final: (plan.answer == AnswerKind::BestSeen)
                .then_some(found.reward_final)
                .flatten(),
            rewards,
            log_p: found.log_p,
            method: plan.method.name().to_string(),
            seed: plan.seed,
            prompt_index: job.prompt_index as u64,
            sample: job.sample as u64,
            stopped: found.stopped.map(|reason| stop_name(reason).to_owned()),
            notes,
            held_out,
            before: plan.given.as_ref().map(|given| given.text.clone()),
            reward_before: found.reward_before,
            cost: Cost::new(found.cost, seconds),
            plan: self.plan_row.clone(),
            extra: job.extra.clone(),
            tree: found.tree,
            trace: None,
        })
    }

    /// The reward of the text that was found, and its parts.
    fn rewards(
        &self,
        pipeline: &Pipeline,
        found: &Outcome,
        hurry: &Hurry,
    ) -> Result<(f64, Map<String, Value>)> {
        let (whole, parts) = (self.plan.reward.to_string(), self.plan.reward.parts());
        let alone = |reward: f64| (reward, Map::from_iter([(whole.clone(), reward.into())]));
        match (parts.as_slice(), found.reward) {
            // One part is the reward itself: there is nothing to take apart.
            ([only], Some(reward)) if only.written == whole => return Ok(alone(reward)),
            _ => {}
        }
        match hurry.within(|| Ok(pipeline.breakdown(&found.tokens)?)) {
            Ok(breakdown) => {
                let parts = breakdown.parts.into_iter().map(|(name, value)| (name, value.into()));
                Ok((found.reward.unwrap_or(breakdown.total), parts.collect()))
            }
            Err(error) if hurry.is_why(&error) => match (found.reward, found.stopped) {
                (Some(reward), _) => Ok(alone(reward)),
                // A text that no reward has seen is no answer.
                (None, Some(reason)) => {
                    let (steps, masks, cost) = (found.steps, 0, found.cost);
                    Err(CoreError::Stopped { reason, steps, masks, cost }.into())
                }
                (None, None) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Who read the beginning of a text only, since it is longer than they take.
    fn cut_short(&self, text: &str, judged: bool) -> Result<Vec<String>> {
        if self.plan.preset.conventions() == Conventions::Fk {
            return Ok(Vec::new()); // its windows are short on purpose
        }
        let judges = self.judges.iter().map(|(_, judge)| judge).filter(|_| judged);
        let asked = std::iter::once(&self.reward).chain(&self.proxy).chain(judges);
        let fluency = self.fluency.iter().filter(|_| judged);
        let (mut asked_once, mut notes) = (HashSet::new(), Vec::new());
        for leaf in asked.flat_map(|composite| composite.leaves()).chain(fluency) {
            if asked_once.insert(leaf.name())
                && let Some(most) = leaf.cut(text)?
            {
                notes.push(format!(
                    "{}: saw {most} tokens only, the most it reads; the text is longer",
                    leaf.name()
                ));
            }
        }
        Ok(notes)
    }

    fn held_out(&self, text: &str, continuation: &str) -> Result<Option<HeldOut>> {
        if self.judges.is_empty() {
            return Ok(None);
        }
        let mut judges = Map::new();
        for (name, judge) in &self.judges {
            let total = TextReward::score(&**judge, &[text])?.first().copied();
            judges.insert(name.clone(), total.into());
        }
        let perplexity = match &self.fluency {
            Some(fluency) => fluency.score(&[text])?.first().map(|value| (-value).exp()),
            None => None,
        };
        let dist = [1, 2, 3].map(|n| metrics::dist(&[continuation], n));
        Ok(Some(HeldOut { judges, perplexity, dist }))
    }
}

/// What remains to be done for a text when somebody waits for it who said stop.
struct Hurry(Option<Instant>);

impl Hurry {
    fn new(stopped: Option<StopReason>) -> Self {
        let pressed = matches!(stopped, Some(StopReason::Deadline | StopReason::Cancelled));
        Self(pressed.then(|| Instant::now() + FAREWELL))
    }

    fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }

    /// Runs a call that gives up when it takes too long.
    fn within<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.0 {
            Some(_) => until(&|| self.is_over(), call),
            None => call(),
        }
    }

    /// Whether a call failed for no other reason than that.
    fn is_why(&self, error: &Error) -> bool {
        self.is_over() && treasure_rewards::Error::is_interruption(error)
    }
}

/// Drives a run to its end.
pub(crate) fn to_the_end(run: &mut Run<'_, '_>) -> Result<()> {
    while run.step()? == Progress::More {}
    Ok(())
}

/// Why a search ended early, in the words of the options.
fn stop_name(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxNfe => "max-nfe",
        StopReason::MaxRewardCalls => "max-reward-calls",
        StopReason::Deadline => "max-seconds",
        StopReason::Target => "target-reward",
        StopReason::Settled => "settled",
        StopReason::Observer | StopReason::Cancelled | StopReason::Caller => "interrupted",
    }
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
