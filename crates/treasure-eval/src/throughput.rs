//! Forward, search step and reward throughput on this machine.
//!
//! Every number is the median of several rounds after one that warms up, with the spread beside it.

mod searches;

pub use searches::{Timed, TimedSearch};

use std::{sync::Arc, time::Instant};

use serde::Serialize;
use treasure::{
    Plan, Session,
    core::{Bans, Key, Limits, NoiseSchedule, Problem, Question, Silent, State, Want},
    models::exec::{Isa, Precision, register_flops},
    rewards::{Composite, Pipeline, TextReward},
    text::{Start, TextModel},
    words,
};

use crate::Result;

/// What is measured.
pub struct Throughput {
    plan: Plan,
    model: Arc<dyn TextModel>,
    reward: Arc<Composite>,
    proxy: Option<Arc<Composite>>,
}

/// One measured line.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What was measured.
    pub what: &'static str,
    /// Sequences, texts or steps in one round.
    pub batch: usize,
    /// Tokens in a sequence, words in a text.
    pub length: usize,
    /// Median seconds of a round.
    pub seconds: f64,
    /// The fastest round.
    pub fastest: f64,
    /// The slowest round.
    pub slowest: f64,
    /// Sequences, texts or steps a second, by the median.
    pub per_second: f64,
    /// Threads that worked on it.
    pub threads: usize,
}

impl Line {
    /// Lines for people.
    pub fn table(lines: &[Self]) -> String {
        let ms = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        let cells = |line: &Self| {
            vec![
                line.what.to_string(),
                line.batch.to_string(),
                line.length.to_string(),
                ms(line.seconds),
                ms(line.fastest),
                ms(line.slowest),
                words::count(line.per_second.round() as u64),
            ]
        };
        let cells: Vec<Vec<String>> = lines.iter().map(cells).collect();
        let header = ["what", "batch", "length", "median", "fastest", "slowest", "per second"];
        words::table(&header, &cells, &[false, true, true, true, true, true, true])
    }
}

impl Throughput {
    /// Loads what a plan names. The session's rewards should remember nothing: a cache would time its
    /// own lookups.
    pub fn new(session: &Session, plan: Plan) -> Result<Self> {
        Ok(Self {
            model: session.model(&plan.model, &plan.load)?,
            reward: session.reward_of(&plan)?,
            proxy: session.screen_of(&plan)?,
            plan,
        })
    }

    fn pipeline(&self, reward: &Arc<Composite>, start: &Start) -> Pipeline {
        let text = self.model.clone();
        Pipeline::new(reward.clone(), text, start.layout.clone(), start.ends.clone())
    }

    fn start(&self, prompt: &str) -> Result<Start> {
        let (length, least) = (self.plan.length, self.plan.min_length);
        Ok(Start::prompt(&*self.model, prompt, length, least).map_err(treasure::Error::from)?)
    }

    /// Forward passes, steps of the search, and texts through the reward.
    pub fn lines(&self, rounds: usize, threads: usize) -> Result<Vec<Line>> {
        let start = self.start(PROMPT)?;
        let (length, often) = (start.state.len(), (rounds, threads));
        let mut lines = Vec::new();
        for batch in [1, 8, 16] {
            let mut forward = |_: usize| self.forward(&start, batch);
            lines.push(measure("forward", batch, length, often, &mut forward)?);
        }
        let mut steps = |round: usize| self.steps(&start, round);
        lines.push(measure("search step", 1, length, often, &mut steps)?);
        for batch in [1, 10, 40] {
            let mut score = |round: usize| self.score(batch, round);
            lines.push(measure("reward", batch, WORDS, often, &mut score)?);
        }
        Ok(lines)
    }

    /// A forward pass with the likeliest token at every mask.
    fn forward(&self, start: &Start, batch: usize) -> treasure::Result<usize> {
        let states = vec![State { seq: &start.state, t: 1.0 }; batch];
        let (bans, want) = (Bans::none(), Want { argmax: true, ..Want::default() });
        let encodings = self.model.encode(&states)?;
        let questions: Vec<Question<'_>> = encodings
            .iter()
            .map(|encoding| Question { seq: &start.state, encoding, bans: &bans, want })
            .collect();
        self.model.read(&questions)?;
        Ok(batch)
    }

    /// A search, reward included: so many steps.
    fn steps(&self, start: &Start, round: usize) -> treasure::Result<usize> {
        let pipeline = self.pipeline(&self.reward, start);
        let (schedule, bans) = (NoiseSchedule::default(), start.bans.clone());
        let (state, limits) = (start.state.clone(), Limits::default());
        let problem = Problem::new(state, &schedule, &*self.model, &pipeline, bans, limits)?
            .with_ends(&start.ends)
            .with_answer(self.plan.answer);
        let method = self.plan.method.search();
        Ok(method.run(&problem, Key::new(round as u64), &mut Silent)?.steps)
    }

    /// Texts through the reward, all different.
    fn score(&self, batch: usize, round: usize) -> treasure::Result<usize> {
        let texts: Vec<String> = (0..batch).map(|row| text(round * batch + row)).collect();
        let views: Vec<&str> = texts.iter().map(String::as_str).collect();
        TextReward::score(&*self.reward, &views)?;
        Ok(batch)
    }
}

/// Does a round by its number and says how many units it did.
type Work<'a> = dyn FnMut(usize) -> treasure::Result<usize> + 'a;

fn measure(
    what: &'static str,
    batch: usize,
    length: usize,
    (rounds, threads): (usize, usize),
    work: &mut Work<'_>,
) -> Result<Line> {
    work(usize::from(u16::MAX))?;
    let mut seconds = Vec::with_capacity(rounds);
    for round in 0..rounds.max(1) {
        let began = Instant::now();
        let units = work(round)?.max(1);
        // A search takes as many steps as it needs: time is per batch of units.
        seconds.push(began.elapsed().as_secs_f64() / units as f64 * batch as f64);
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    let (fastest, slowest) = (seconds[0], seconds[seconds.len() - 1]);
    let per_second = batch as f64 / median.max(1e-12);
    Ok(Line { what, batch, length, seconds: median, fastest, slowest, per_second, threads })
}

/// The most the threads can do in a precision: multiply-adds on registers, the best of many short bursts.
pub fn peak_gflops(threads: usize, precision: Precision) -> f64 {
    let burst = || {
        let began = Instant::now();
        register_flops(Isa::best(), precision, 1_000_000) / began.elapsed().as_secs_f64() / 1e9
    };
    let best = || (0..50).map(|_| burst()).fold(0.0, f64::max);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(best)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(0.0)).sum()
    })
}

const PROMPT: &str = "Once upon a time";
/// Words of a text that is scored, about as many as a search scores.
const WORDS: usize = 44;

/// A text that is different for every number.
fn text(number: usize) -> String {
    let words = ["the", "little", "dog", "ran", "home", "with", "a", "red", "ball", "and", "sang"];
    let mut text = PROMPT.to_string();
    for place in 0..WORDS - 4 {
        text.push(' ');
        text.push_str(words[(number * 7 + place * (number % 5 + 3)) % words.len()]);
    }
    text
}
