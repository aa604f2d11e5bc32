//! One sample: a search from a start state to a finished row.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use treasure_core::{
    Clock, Deadline, Denoiser, Error, Key, Limits, MaskedSeq, NoiseSchedule, Outcome as Found,
    Problem, Reward, StopReason, TokenId, TraceWriter, View,
};
use treasure_models::MaskedLm;
use treasure_rewards::{Composite, Pipeline, Start, TextOptions, TextReward, metrics};

use super::{
    follow::{Follower, Screen},
    plan::Plan,
    row::{CostRow, HeldOut, Row},
};
use crate::{
    failure::{Failure, Outcome},
    output::watch,
};

/// All that the samples of a run share.
pub struct Setup {
    /// Every option after defaults.
    pub plan: Plan,
    /// The plan as rows carry it.
    pub plan_row: Value,
    /// The search.
    pub search: Box<dyn treasure_core::Method>,
    /// The denoiser with its tokenizer.
    pub model: Arc<MaskedLm>,
    /// The reward.
    pub reward: Arc<Composite>,
    /// How text is prepared for the reward.
    pub text: TextOptions,
    /// The cheap reward of a screened search.
    pub proxy: Option<Arc<Composite>>,
    /// Held-out judges, each as written.
    pub judges: Vec<(String, Arc<Composite>)>,
    /// What perplexity is read from, where a scorer is at hand.
    pub fluency: Option<Arc<dyn TextReward>>,
    /// Whether traces are asked for.
    pub traces: bool,
}

/// One sample to make.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Which prompt of the run.
    pub prompt_index: usize,
    /// Which sample of the prompt.
    pub sample: usize,
    /// Where its search starts.
    pub start: &'a Start,
}

/// A sample that was made.
#[derive(Debug)]
pub struct Sampled {
    /// Its row.
    pub row: Row,
    /// Its trace, if traces are asked for.
    pub trace: Option<Vec<u8>>,
    /// Whether Ctrl-C ended its search.
    pub interrupted: bool,
    /// Caps and other notices of the search.
    pub notes: Vec<String>,
}

/// The wall clock since a sample began.
struct WallClock(Instant);

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// What this prompt's sequences look like as text, scored by a reward that samples may share.
struct Behind<'a> {
    pipeline: &'a Pipeline,
    scores: &'a dyn Reward,
}

impl Reward for Behind<'_> {
    fn name(&self) -> &str {
        self.scores.name()
    }

    fn view(&self, tokens: &[TokenId]) -> treasure_core::Result<View> {
        self.pipeline.view(tokens)
    }

    fn score(&self, batch: &[&View]) -> treasure_core::Result<Vec<f64>> {
        self.scores.score(batch)
    }
}

impl Setup {
    /// A reward on the sequences of one start state.
    pub fn pipeline(&self, reward: &Arc<Composite>, start: &Start) -> Pipeline {
        let (text, layout) = (self.model.clone(), start.layout.clone());
        Pipeline::new(reward.clone(), text, layout, start.ends.clone()).with_options(self.text)
    }
}

/// Makes one sample, or none if Ctrl-C came before there was any text. `denoiser` and `scores` may
/// merge the requests of several samples in flight.
pub fn run_sample(
    setup: &Setup,
    job: &Job<'_>,
    denoiser: &dyn Denoiser,
    scores: &dyn Reward,
    screen: &Screen,
) -> Outcome<Option<Sampled>> {
    let clock = WallClock(Instant::now());
    let plan = &setup.plan;
    let pipeline = setup.pipeline(&setup.reward, job.start);
    let reward = Behind { pipeline: &pipeline, scores };
    let proxy = setup.proxy.as_ref().map(|proxy| setup.pipeline(proxy, job.start));
    let limits = Limits {
        max_nfe: plan.max_nfe,
        max_reward_calls: plan.max_reward_calls,
        deadline: plan
            .max_seconds
            .map(|seconds| Deadline { clock: &clock, at: Duration::from_secs_f64(seconds) }),
        target_reward: plan.target_reward,
    };
    let schedule = NoiseSchedule::default();
    let start = job.start;
    let mut problem = Problem::new(
        start.state.clone(),
        &schedule,
        denoiser,
        &reward,
        start.bans.clone(),
        limits,
    )?;
    if let Some(proxy) = &proxy {
        problem = problem.with_proxy(proxy);
    }
    let trace = setup.traces.then(|| {
        let mut trace = TraceWriter::new(Vec::new());
        trace.line(&json!({
            "event": "sample", "prompt_index": job.prompt_index, "sample": job.sample,
            "plan": setup.plan_row,
        }));
        trace
    });
    let render = |state: &MaskedSeq| partial_text(setup, start, state);
    let mut follower = Follower::new(screen, Box::new(render), trace);
    let key = Key::new(plan.seed).fold(job.sample as u64);
    let found = match setup.search.run(&problem, key, &mut follower) {
        Err(Error::Stopped { reason: StopReason::Observer, .. }) => return Ok(None),
        result => result.map_err(explain_stop)?,
    };
    let interrupted = follower.interrupted();
    let seconds = clock.0.elapsed().as_secs_f64();
    let trace = follower.into_trace()?;
    let row = row(setup, job, &pipeline, &found, interrupted, seconds)?;
    let notes = found.notes.iter().map(|note| format!("{}: {}", note.what, note.message)).collect();
    Ok(Some(Sampled { row, trace, interrupted, notes }))
}

/// A search that was stopped before there was any text says what to do about it.
fn explain_stop(error: Error) -> Failure {
    match &error {
        Error::Stopped { reason, .. } => {
            let hint = match reason {
                StopReason::MaxNfe => "raise --max-nfe: not even one prediction was made",
                StopReason::MaxRewardCalls => "raise --max-reward-calls",
                StopReason::Deadline => "raise --max-seconds",
                StopReason::Target | StopReason::Observer => "let it run a little longer",
            };
            Failure::from(error).hint(hint)
        }
        _ => Failure::from(error),
    }
}

fn row(
    setup: &Setup,
    job: &Job<'_>,
    pipeline: &Pipeline,
    found: &Found,
    interrupted: bool,
    seconds: f64,
) -> Outcome<Row> {
    let rendered = pipeline.render(&found.tokens)?;
    let breakdown = pipeline.breakdown(&found.tokens)?;
    let continuation = rendered.continuation().to_string();
    let cost = CostRow {
        nfe: found.cost.nfe,
        nfe_hits: found.cost.nfe_hits,
        reward_calls: found.cost.reward_calls,
        reward_cache_hits: found.cost.reward_cache_hits,
        seconds,
    };
    let held_out = held_out(setup, &rendered.text, &continuation)?;
    Ok(Row {
        prompt: rendered.text[..rendered.prompt_bytes].to_string(),
        continuation,
        text: rendered.text,
        tokens: rendered.tokens,
        reward: found.reward.unwrap_or(breakdown.total),
        rewards: breakdown.parts.into_iter().map(|(name, value)| (name, value.into())).collect(),
        method: setup.plan.method.name().to_string(),
        seed: setup.plan.seed,
        prompt_index: job.prompt_index as u64,
        sample: job.sample as u64,
        stopped: match (interrupted, found.stopped) {
            (true, _) => Some("interrupted".to_string()),
            (false, reason) => reason.map(stop_name),
        },
        held_out,
        cost,
        plan: setup.plan_row.clone(),
    })
}

/// Why a search ended early, in the words of the options.
fn stop_name(reason: StopReason) -> String {
    match reason {
        StopReason::MaxNfe => "max-nfe",
        StopReason::MaxRewardCalls => "max-reward-calls",
        StopReason::Deadline => "max-seconds",
        StopReason::Target => "target-reward",
        StopReason::Observer => "interrupted",
    }
    .to_string()
}

fn held_out(setup: &Setup, text: &str, continuation: &str) -> Outcome<Option<HeldOut>> {
    if setup.judges.is_empty() {
        return Ok(None);
    }
    let mut judges = Map::new();
    for (name, judge) in &setup.judges {
        let total = judge.breakdown(&[text])?.swap_remove(0).total;
        judges.insert(name.clone(), total.into());
    }
    let perplexity = match &setup.fluency {
        Some(fluency) => fluency.score(&[text])?.first().map(|value| (-value).exp()),
        None => None,
    };
    let dist = [1, 2, 3].map(|n| metrics::dist(&[continuation], n));
    Ok(Some(HeldOut { judges, perplexity, dist }))
}

/// A partly masked sequence as text, masks shown, for the view of a running search.
fn partial_text(setup: &Setup, start: &Start, state: &MaskedSeq) -> String {
    let Ok(tokenizer) = setup.model.tokenizer() else { return String::new() };
    let mut text = String::new();
    let mut run: Vec<TokenId> = Vec::new();
    let flush = |run: &mut Vec<TokenId>, text: &mut String| {
        text.push_str(&tokenizer.decode_fragment(run).unwrap_or_default());
        run.clear();
    };
    let mut ended = false;
    for slot in state.slots() {
        match slot {
            // The text after an end of text does not count; the first token may be one too.
            Some(token) if start.ends.contains(&token) && !text.is_empty() => ended = true,
            Some(token) => run.push(token),
            None => {
                flush(&mut run, &mut text);
                text.push_str(watch::MASK);
            }
        }
        if ended {
            break;
        }
    }
    flush(&mut run, &mut text);
    text.trim_start().to_string()
}
