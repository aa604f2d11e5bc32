//! `treasure bench`: forward, search step and reward throughput on this machine.
//!
//! Every number is the median of several rounds after one that warms up, with the spread beside it.

use std::{fs::File, io::BufReader, num::NonZeroUsize, path::PathBuf, sync::Arc, time::Instant};

use clap::Args;
use serde::Serialize;
use treasure::{
    Plan, Request, Session, SessionOptions,
    core::{Bans, Key, Limits, MaskedSeq, NoiseSchedule, Problem, Question, Silent, State, Want},
    models::exec::{Isa, register_flops},
    rewards::{Composite, Pipeline, TextReward},
    text::{Start, TextModel},
};

use super::searches;
use crate::{
    Verdict,
    failure::{OrFail as _, Outcome},
    options::{
        common::Common,
        request::{ModelOptions, SearchOptions},
    },
    output::{number, print},
};

/// Measure forward, search step and reward throughput on this machine
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure bench
  treasure bench --model DIR --reward hf:DIR#LABEL --length 128 --json
  treasure bench --searches requests.jsonl --beam-width 20 --tree-width 16

Each line is the median of several rounds after one that warms up.
--searches runs each search once, after a line with the peak of the machine. A request has `prompt` and may have
`slots` (the whole sequence, null where masked), `seed`, `skip` (steps before the clock starts), `steps`
(to time) and `memory` (false: nothing seen before is remembered).")]
pub struct Bench {
    /// The reward to time
    #[arg(long, value_name = "SPEC", default_value = "perplexity")]
    pub reward: String,
    /// Tokens to generate
    #[arg(long, value_name = "N", default_value = "48", value_parser = crate::options::positive)]
    pub length: NonZeroUsize,
    /// No end of text before this many tokens [default: 24, or the length if that is less]
    #[arg(long, value_name = "N")]
    pub min_length: Option<usize>,
    /// Most texts in one reward batch
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub reward_batch: Option<NonZeroUsize>,
    /// How the weights of the reward are held in memory: auto, f32, f16, bf16 or int8
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub reward_dtype: String,
    /// Run these searches instead (`-` reads standard input) and say as JSON where their time goes
    #[arg(long, value_name = "FILE.jsonl")]
    pub searches: Option<PathBuf>,
    /// Rounds a line is measured
    #[arg(long, value_name = "N", default_value = "7", value_parser = crate::options::positive)]
    pub rounds: NonZeroUsize,
    /// Whose conventions hold
    #[arg(long, value_enum, value_name = "PRESET", default_value_t)]
    pub preset: crate::options::request::PresetKind,
    /// The denoiser.
    #[command(flatten)]
    pub model: ModelOptions,
    /// The search.
    #[command(flatten)]
    pub search: SearchOptions,
}

/// What is measured.
pub struct Setup {
    /// Every option after defaults.
    pub plan: Plan,
    /// The denoiser.
    pub model: Arc<dyn TextModel>,
    /// The reward.
    pub reward: Arc<Composite>,
    /// The cheap reward of a screened search.
    pub proxy: Option<Arc<Composite>>,
}

impl Setup {
    /// A reward on the sequences of one start state.
    pub fn pipeline(&self, reward: &Arc<Composite>, start: &Start) -> Pipeline {
        let text = self.model.clone();
        Pipeline::new(reward.clone(), text, start.layout.clone(), start.ends.clone())
    }
}

/// One measured line.
#[derive(Debug, Serialize)]
struct Line {
    /// What was measured.
    what: &'static str,
    /// Sequences, texts or steps in one round.
    batch: usize,
    /// Tokens in a sequence.
    length: usize,
    /// Median seconds of a round.
    seconds: f64,
    /// The fastest round.
    fastest: f64,
    /// The slowest round.
    slowest: f64,
    /// Sequences, texts or steps a second, by the median.
    per_second: f64,
    threads: usize,
}

impl Bench {
    /// Measures and prints a table, or one object a line.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let setup = self.setup(common)?;
        if let Some(path) = &self.searches {
            let peak =
                serde_json::json!({"what": "peak", "gflops": peak_gflops(common.n_threads())});
            print::line(peak)?;
            if path.as_os_str() == "-" {
                searches::run(&setup, std::io::stdin().lock())?;
            } else {
                let file = File::open(path).context(|| format!("--searches {}", path.display()))?;
                searches::run(&setup, BufReader::new(file))?;
            }
            return Ok(Verdict::Done);
        }
        let start = Start::prompt(&*setup.model, PROMPT, self.length.get(), setup.plan.min_length)?;
        let mut lines = Vec::new();
        for batch in [1, 8, 16] {
            lines.push(self.forward(&setup, &start, batch)?);
        }
        lines.push(self.search(&setup, &start)?);
        for batch in [1, 10, 40] {
            lines.push(self.scoring(&setup, batch)?);
        }
        for line in &mut lines {
            line.threads = common.n_threads();
            if common.json {
                print::line(serde_json::to_string(line)?)?;
            }
        }
        if !common.json {
            let cells: Vec<Vec<String>> = lines.iter().map(Line::cells).collect();
            let header = ["what", "batch", "length", "median", "fastest", "slowest", "per second"];
            let right = [false, true, true, true, true, true, true];
            print::line(print::table(&header, &cells, &right))?;
            common.say(format!(
                "\n{} threads, median of {} rounds, {} with reward {}",
                common.n_threads(),
                self.rounds,
                self.model.model,
                self.reward
            ));
        }
        Ok(Verdict::Done)
    }

    fn setup(&self, common: &Common) -> Outcome<Setup> {
        let mut request = Request {
            reward: Some(self.reward.clone()),
            reward_dtype: Some(self.reward_dtype.clone()),
            length: Some(self.length.get()),
            min_length: self.min_length,
            preset: Some(self.preset.into()),
            seed: common.seed,
            ..Request::default()
        };
        self.model.fill(&mut request);
        self.search.fill(&mut request);
        let plan = Plan::new(&request)?;
        // A cache would time its own lookups.
        let session = Session::pocket()?.with_options(SessionOptions {
            reward_batch: self.reward_batch.map(NonZeroUsize::get),
            cache_bytes: 0,
            ..SessionOptions::default()
        });
        Ok(Setup {
            model: session.model(&plan.model, &plan.load)?,
            reward: session.reward_of(&plan)?,
            proxy: session.screen_of(&plan)?,
            plan,
        })
    }

    /// Forward passes with the likeliest token at every mask.
    fn forward(&self, setup: &Setup, start: &Start, batch: usize) -> Outcome<Line> {
        let states: Vec<State<'_>> =
            std::iter::repeat_n(State { seq: &start.state, t: 1.0 }, batch).collect();
        let bans = Bans::none();
        let want = Want { argmax: true, ..Want::default() };
        self.measure("forward", batch, start.state.len(), |_| {
            let encodings = setup.model.encode(&states)?;
            let questions: Vec<Question<'_>> = encodings
                .iter()
                .map(|encoding| Question { seq: &start.state, encoding, bans: &bans, want })
                .collect();
            setup.model.read(&questions)?;
            Ok(batch)
        })
    }

    /// Steps of the default search, reward included.
    fn search(&self, setup: &Setup, start: &Start) -> Outcome<Line> {
        let pipeline = setup.pipeline(&setup.reward, start);
        let schedule = NoiseSchedule::default();
        let state: MaskedSeq = start.state.clone();
        self.measure("search step", 1, start.state.len(), |round| {
            let problem = Problem::new(
                state.clone(),
                &schedule,
                &*setup.model,
                &pipeline,
                start.bans.clone(),
                Limits::default(),
            )?
            .with_ends(&start.ends)
            .with_answer(setup.plan.answer);
            let method = setup.plan.method.search();
            let found = method.run(&problem, Key::new(round as u64), &mut Silent)?;
            Ok(found.steps)
        })
    }

    /// Texts through the reward, all different.
    fn scoring(&self, setup: &Setup, batch: usize) -> Outcome<Line> {
        let mut length = 0;
        let mut line = self.measure("reward", batch, 0, |round| {
            let texts: Vec<String> = (0..batch).map(|row| text(round * batch + row)).collect();
            length =
                texts.iter().map(|text| text.split_whitespace().count()).sum::<usize>() / batch;
            let views: Vec<&str> = texts.iter().map(String::as_str).collect();
            TextReward::score(&*setup.reward, &views)?;
            Ok(batch)
        })?;
        line.length = length;
        Ok(line)
    }

    /// The median of the rounds; `work` gets the round's number and says how many units it did.
    fn measure(
        &self,
        what: &'static str,
        batch: usize,
        length: usize,
        mut work: impl FnMut(usize) -> Outcome<usize>,
    ) -> Outcome<Line> {
        work(usize::from(u16::MAX))?;
        let mut seconds = Vec::with_capacity(self.rounds.get());
        for round in 0..self.rounds.get() {
            let began = Instant::now();
            let units = work(round)?.max(1);
            // A search takes as many steps as it needs: time is per batch of units.
            seconds.push(began.elapsed().as_secs_f64() / units as f64 * batch as f64);
        }
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        Ok(Line {
            what,
            batch,
            length,
            seconds: median,
            fastest: seconds[0],
            slowest: seconds[seconds.len() - 1],
            per_second: batch as f64 / median.max(1e-12),
            threads: 0,
        })
    }
}

impl Line {
    fn cells(&self) -> Vec<String> {
        let ms = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        vec![
            self.what.to_string(),
            self.batch.to_string(),
            self.length.to_string(),
            ms(self.seconds),
            ms(self.fastest),
            ms(self.slowest),
            number::count(self.per_second.round() as u64),
        ]
    }
}

/// The most the threads can do: fused multiply-adds on registers, the best of many short bursts.
fn peak_gflops(threads: usize) -> f64 {
    let burst = || {
        let began = Instant::now();
        register_flops(Isa::best(), 1_000_000) / began.elapsed().as_secs_f64() / 1e9
    };
    let best = || (0..50).map(|_| burst()).fold(0.0, f64::max);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(best)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(0.0)).sum()
    })
}

const PROMPT: &str = "Once upon a time";

/// A text of about the length a search scores, different for every number.
fn text(number: usize) -> String {
    let words = ["the", "little", "dog", "ran", "home", "with", "a", "red", "ball", "and", "sang"];
    let mut text = PROMPT.to_string();
    for place in 0..40 {
        text.push(' ');
        text.push_str(words[(number * 7 + place * (number % 5 + 3)) % words.len()]);
    }
    text
}
