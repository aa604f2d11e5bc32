//! Searches from given states, and where their time goes.
//!
//! One request, one answer, so that a race can take turns with another program. The search is the one
//! of every door, without its memory of scored texts across samples.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use serde::{Deserialize, Serialize};
use treasure::{
    core::{
        Answer, Cost, Denoiser, Encoding, Event, Limits, MaskedSeq, NoiseSchedule, Observer,
        Problem, Question, Range, Reader, Result, Reward, Scoring, State, TokenId, View, Wrapper,
    },
    models::exec::{on_a_worker, operations},
    sample_key,
    text::Start,
};

use super::Throughput;

/// A search to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedSearch {
    /// The beginning of the text.
    prompt: String,
    /// The whole sequence, `null` where masked; the prompt and only masks behind it if left out.
    slots: Option<Vec<Option<TokenId>>>,
    /// The seed, as in `treasure generate`.
    #[serde(default)]
    seed: u64,
    /// Steps before the clock starts.
    #[serde(default)]
    skip: usize,
    /// Steps to time; to the end if left out.
    steps: Option<usize>,
    /// Whether states and texts seen before are remembered.
    #[serde(default = "yes")]
    memory: bool,
}

fn yes() -> bool {
    true
}

/// What was found and what it took.
#[derive(Clone, Debug, Serialize)]
pub struct Timed {
    what: &'static str,
    /// The state it started in.
    slots: Vec<Option<TokenId>>,
    /// How many of its positions are the prompt.
    given: usize,
    /// The text of the best sequence.
    text: String,
    /// Its reward.
    reward: Option<f64>,
    /// Seconds of the timed steps.
    seconds: f64,
    /// Of which in the denoiser.
    denoiser_seconds: f64,
    /// Of which in the reward, tokenising included.
    reward_seconds: f64,
    /// Floating-point operations of the denoiser's matrix products.
    denoiser_operations: u64,
    /// Of the reward's.
    reward_operations: u64,
    /// Calls of the timed steps.
    cost: Cost,
}

impl Throughput {
    /// Runs one search and says where its time went.
    pub fn search(&self, asked: &TimedSearch) -> crate::Result<Timed> {
        Ok(on_a_worker(|| search(self, asked))?)
    }
}

fn search(setup: &Throughput, request: &TimedSearch) -> treasure::Result<Timed> {
    let plan = &setup.plan;
    let mut start = Start::prompt(&*setup.model, &request.prompt, plan.length, plan.min_length)?;
    let given = start.state.masked().next().unwrap_or(0);
    if let Some(slots) = &request.slots {
        let (expected, got) = (start.state.len(), slots.len());
        if got != expected {
            let message = format!("slots: expected {expected} positions, got {got}");
            return Err(treasure::Error::request(message).with_hint(
                "the prompt's tokens and as many masks behind them as the length says",
            ));
        }
        start.state = MaskedSeq::from_slots(slots.iter().copied());
    }
    let pipeline = setup.pipeline(&setup.reward, &start);
    let proxy = setup.proxy.as_ref().map(|proxy| setup.pipeline(proxy, &start));
    let (predicted, scored) = (Meter::default(), Meter::default());
    let model: &dyn Denoiser = &*setup.model;
    let denoiser = Clocked { inner: model, meter: &predicted };
    let clocked = |pipeline| Clocked { inner: Scoring::from(pipeline), meter: &scored };
    let (reward, screen) = (clocked(&pipeline), proxy.as_ref().map(clocked));
    let schedule = NoiseSchedule::default();
    let (state, bans) = (start.state.clone(), start.bans.clone());
    let (reward, limits) = (reward.scoring(), Limits::default());
    let mut problem = Problem::new(state, &schedule, &denoiser, reward, bans, limits)?
        .with_ends(&start.ends)
        .with_answer(plan.answer);
    if !request.memory {
        problem = problem.with_memory(0, 0);
    }
    if let Some(screen) = &screen {
        problem = problem.with_proxy(screen.scoring());
    }
    let restart = || {
        predicted.restart();
        scored.restart();
    };
    let mut clock = Stopwatch {
        began: Instant::now(),
        before: Cost::default(),
        skip: request.skip,
        last: request.steps.map(|steps| request.skip + steps),
        restart: &restart,
    };
    let key = sample_key(request.seed, &request.prompt, 0);
    let found = plan.method.search().run(&problem, key, &mut clock)?;
    let seconds = clock.began.elapsed().as_secs_f64();
    let (denoiser, reward) = (predicted.spent(), scored.spent());
    Ok(Timed {
        what: "search",
        slots: start.state.slots().collect(),
        given,
        text: pipeline.render(&found.tokens)?.text,
        reward: found.reward.or(found.best_seen.map(|best| best.reward)),
        seconds,
        denoiser_seconds: denoiser.0,
        reward_seconds: reward.0,
        denoiser_operations: denoiser.1,
        reward_operations: reward.1,
        cost: since(&clock.before, &found.cost),
    })
}

fn since(before: &Cost, after: &Cost) -> Cost {
    Cost {
        nfe: after.nfe - before.nfe,
        nfe_hits: after.nfe_hits - before.nfe_hits,
        reward_calls: after.reward_calls - before.reward_calls,
        reward_cache_hits: after.reward_cache_hits - before.reward_cache_hits,
        proxy_calls: after.proxy_calls - before.proxy_calls,
        reward_skips: after.reward_skips - before.reward_skips,
    }
}

/// Starts the clock after the steps to skip and stops the search after those to time.
struct Stopwatch<'a> {
    began: Instant,
    before: Cost,
    skip: usize,
    last: Option<usize>,
    restart: &'a dyn Fn(),
}

impl Observer for Stopwatch<'_> {
    fn observe(&mut self, event: &Event) -> ControlFlow<()> {
        let Event::Step(step) = event else { return ControlFlow::Continue(()) };
        if Some(step.step + 1) == self.last {
            return ControlFlow::Break(());
        }
        if step.step + 1 == self.skip {
            self.before = step.cost;
            (self.restart)();
            self.began = Instant::now();
        }
        ControlFlow::Continue(())
    }

    fn wants_nodes(&self) -> bool {
        false
    }

    fn wants_steps(&self) -> bool {
        self.last.is_some() || self.skip > 0
    }
}

/// Time and operations, added up.
#[derive(Default)]
struct Meter {
    nanoseconds: AtomicU64,
    operations: AtomicU64,
}

impl Meter {
    fn restart(&self) {
        self.nanoseconds.store(0, Ordering::Relaxed);
        self.operations.store(0, Ordering::Relaxed);
    }

    fn spent(&self) -> (f64, u64) {
        let seconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        (seconds, self.operations.load(Ordering::Relaxed))
    }

    fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let (began, before) = (Instant::now(), operations());
        let result = work();
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.operations.fetch_add(operations() - before, Ordering::Relaxed);
        result
    }
}

/// What a search asks, on a meter.
struct Clocked<'a, T> {
    inner: T,
    meter: &'a Meter,
}

impl Wrapper for Clocked<'_, &dyn Denoiser> {
    fn inner(&self) -> &dyn Denoiser {
        self.inner
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        self.meter.time(|| self.inner.encode(batch))
    }

    fn encode_after(
        &self,
        batch: &[State<'_>],
        before: &[Option<&Encoding>],
    ) -> Result<Vec<Encoding>> {
        self.meter.time(|| self.inner.encode_after(batch, before))
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        self.meter.time(|| self.inner.read(batch))
    }
}

impl Clocked<'_, Scoring<'_>> {
    fn scoring(&self) -> Scoring<'_> {
        Scoring { reader: self, reward: self }
    }
}

impl Reader for Clocked<'_, Scoring<'_>> {
    fn view(&self, tokens: &[TokenId]) -> Result<View> {
        self.meter.time(|| self.inner.reader.view(tokens))
    }
}

impl Reward for Clocked<'_, Scoring<'_>> {
    fn name(&self) -> &str {
        self.inner.reward.name()
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        self.meter.time(|| self.inner.reward.score(batch))
    }

    fn range(&self) -> Range {
        self.inner.reward.range()
    }
}
