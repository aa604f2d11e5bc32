//! `treasure generate`: text that a reward likes.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::Args;
use treasure_rewards::Start;

use crate::{
    Verdict,
    failure::{Failure, Outcome},
    generation::{
        follow::Screen,
        parts::{Parts, Specs, TextScores},
        plan::{Asked, Plan, PresetKind},
        run::{Sinks, run_all},
        sample::{Job, Setup},
    },
    input::{prompts, template::Template},
    interrupt,
    loading::Batched,
    options::{
        common::Common,
        model::ModelOptions,
        search::{Method, SearchOptions},
    },
    output::{progress::Progress, store::Store, trace::TraceFile, watch::Watch},
};

/// Generate text that a reward likes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure generate \"Once upon a time\" --reward sentiment=negative
  treasure generate \"The movie\" --reward \"sentiment=positive + 0.5*perplexity\" --tree-width 4
  treasure generate --template \"The [MASK:5] was [MASK:12].\" --reward cola
  treasure generate --prompts prompts.jsonl --samples 4 --out rows.jsonl --resume

Rewards: sentiment=positive|neutral|negative, toxicity, no-toxicity, cola, perplexity,
  hf:DIR-or-ID#LABEL, ppl:DIR-or-ID, nelbo:MODEL, regex:PATTERN, contains:a,b, avoids:a,b,
  length:40..60, distinct:N, json-schema:FILE, exec:COMMAND, tei+http://HOST:PORT#LABEL,
  vllm+http://…#LABEL, completions+http://…, reward+http://…
  combined with `a + 0.5*b`, min(a, b), product(a, b); prefixes prob: and accuracy:

An empty prompt \"\" generates without one. Ctrl-C prints the best so far and exits with 1.")]
pub struct Generate {
    /// The beginning of the text; several give several rows
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Prompts from JSON Lines with `prompt`, `context_string` or `messages`
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "prompt")]
    pub prompts: Option<PathBuf>,
    /// Fill the holes of a text, such as "The [MASK:5] was [MASK:12]."
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["prompt", "prompts", "length", "min_length"])]
    pub template: Option<String>,
    /// Reading and running the reward.
    #[command(flatten)]
    pub reward: RewardOptions,
    /// How to search
    #[arg(long, value_enum, default_value_t = Method::Treasure, value_name = "METHOD", help_heading = "Search")]
    pub method: Method,
    /// How many outputs a prompt gets
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Output", value_parser = crate::options::positive)]
    pub samples: NonZeroUsize,
    /// Whose conventions hold
    #[arg(long, value_enum, value_name = "PRESET", default_value_t, help_heading = "Search")]
    pub preset: PresetKind,
    /// How long, and when to stop.
    #[command(flatten)]
    pub limits: Limits,
    /// The method's knobs.
    #[command(flatten)]
    pub search: SearchOptions,
    /// The denoiser.
    #[command(flatten)]
    pub model: ModelOptions,
    /// Where results go.
    #[command(flatten)]
    pub files: Files,
}

/// The reward and what checks it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Reward")]
pub struct RewardOptions {
    /// What to aim for
    #[arg(long, value_name = "SPEC", default_value = "perplexity")]
    pub reward: String,
    /// Also score the result with this, which the search does not see; may be repeated
    #[arg(long, value_name = "SPEC")]
    pub judge: Vec<String>,
    /// Most texts in one reward batch; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub reward_batch: Option<NonZeroUsize>,
    /// How the weights of rewards are held in memory: auto, f32, f16, bf16 or int8
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub reward_dtype: String,
}

/// Length and budget.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Length and budget")]
pub struct Limits {
    /// Tokens to generate [default: 48]
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub length: Option<NonZeroUsize>,
    /// No end of text before this many tokens [default: 24, or the length if that is less]
    #[arg(long, value_name = "N")]
    pub min_length: Option<usize>,
    /// Stop a sample after this many model calls
    #[arg(long, value_name = "N")]
    pub max_nfe: Option<u64>,
    /// Stop a sample after this many reward calls
    #[arg(long, value_name = "N")]
    pub max_reward_calls: Option<u64>,
    /// Stop a sample after this many seconds (the result then depends on the machine)
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub max_seconds: Option<f64>,
    /// Stop once the reward reaches this; exit with 1 if a sample misses it
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub target_reward: Option<f64>,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub struct Files {
    /// Also append the rows to a file, as JSON Lines
    #[arg(long, value_name = "FILE.jsonl")]
    pub out: Option<PathBuf>,
    /// Continue an interrupted --out file: finished rows are kept and not repeated
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Write every step of the search, as JSON Lines
    #[arg(long, value_name = "FILE.jsonl")]
    pub trace: Option<PathBuf>,
    /// Watch the text crystallise in the terminal
    #[arg(long)]
    pub watch: bool,
}

/// The default number of generated tokens.
pub const LENGTH: usize = 48;
/// The default number of tokens before an end of text.
pub const MIN_LENGTH: usize = 24;
/// The length of a whole sequence, BOS and prompt included, in the reference protocol.
pub const FK_LENGTH: usize = 128;

impl Limits {
    /// The number of tokens to generate and how many of them must come before the end of text.
    pub fn lengths(&self, preset: PresetKind) -> Outcome<(usize, usize)> {
        let (length, min_length) = match preset {
            PresetKind::Plain => (LENGTH, MIN_LENGTH),
            // The reference bans no end of text.
            PresetKind::Fk => (FK_LENGTH, 0),
        };
        let length = self.length.map_or(length, NonZeroUsize::get);
        match self.min_length {
            Some(min_length) if min_length > length => Err(Failure::new(format!(
                "--min-length: expected at most the length {length}, got {min_length}"
            ))
            .hint(format!("raise --length to {min_length} or more, or lower --min-length"))),
            Some(min_length) => Ok((length, min_length)),
            None => Ok((length, min_length.min(length))),
        }
    }
}

impl Generate {
    /// Plans, loads, searches and hands the rows on.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let template = self.template.as_deref().map(Template::parse).transpose()?;
        let prompts = match (&self.prompts, &template) {
            (Some(file), _) => prompts::read(file)?,
            (None, Some(_)) => Vec::new(),
            (None, None) => self.prompt.clone(),
        };
        if prompts.is_empty() && template.is_none() {
            return Err(Failure::new("nothing to generate: expected a prompt").hint(
                "try `treasure generate \"Once upon a time\"`, or --prompts FILE.jsonl, \
                 or --template \"The [MASK:5] was [MASK:12].\"",
            ));
        }
        let plan = Plan::new(&Asked {
            model: &self.model,
            reward: &self.reward,
            limits: &self.limits,
            search: &self.search,
            method: self.method,
            template: self.template.as_deref().zip(template.as_ref().map(Template::n_masks)),
            samples: self.samples.get(),
            seed: common.seed(),
            preset: self.preset,
        })?;
        let watch = self.files.watch.then(Watch::start).transpose()?;
        let trace = match &self.files.trace {
            Some(path) => Some(TraceFile::new(path, self.files.resume)?),
            None => None,
        };
        let specs = Specs::parse(&plan)?;
        common.say(plan.line());
        let reading = specs.reading();
        let parts = Parts::load(&self.model, &specs, &self.reward, true)?;
        let setup = parts.setup(plan, trace.is_some())?;
        let starts = self.starts(&setup, &prompts, template.as_ref())?;
        let begun: Vec<&str> = match &template {
            Some(_) => starts.iter().map(|start| start.prompt_text()).collect(),
            None => prompts.iter().map(String::as_str).collect(),
        };
        let store = match (&self.files.out, self.files.resume) {
            (Some(path), false) => Some(Store::create(path)?),
            (Some(path), true) => {
                let store = Store::resume(path, &begun, &setup.plan_row)?;
                if store.recovered() > 0 {
                    common.say(format!(
                        "{}: the last line was cut short and will be made again ({} bytes dropped)",
                        path.display(),
                        store.recovered()
                    ));
                }
                if store.n_rows() > 0 {
                    common.say(format!("{}: {} rows kept", path.display(), store.n_rows()));
                }
                Some(store)
            }
            (None, _) => None,
        };
        let jobs: Vec<Job<'_>> = starts
            .iter()
            .enumerate()
            .flat_map(|(prompt_index, start)| {
                (0..self.samples.get()).map(move |sample| Job { prompt_index, sample, start })
            })
            .filter(|job| {
                let identity = (job.prompt_index as u64, job.sample as u64);
                store.as_ref().is_none_or(|store| !store.has(identity))
            })
            .collect();
        interrupt::listen();
        let screen = Screen::new(Progress::new(common.quiet || watch.is_some()), watch);
        let several_samples = self.samples.get() > 1;
        let sinks = Sinks { common, reading, store, trace, screen: &screen, several_samples };
        let denoiser = Batched { inner: setup.model.clone(), size: self.model.batch_size };
        let scores = TextScores(setup.reward.clone());
        let tally = run_all(&setup, &denoiser, &scores, &jobs, sinks)?;
        if tally.interrupted {
            common.say(match &self.files.out {
                Some(_) => "stopped early; continue with --resume",
                None => "stopped early",
            });
        }
        if tally.below_target > 0 {
            common.say(format!("target reward missed by {} of {}", tally.below_target, tally.rows));
        }
        Ok(match tally.interrupted || tally.below_target > 0 {
            true => Verdict::Missed,
            false => Verdict::Done,
        })
    }

    /// The start state of every prompt, or of the template.
    fn starts(
        &self,
        setup: &Setup,
        prompts: &[String],
        template: Option<&Template>,
    ) -> Outcome<Vec<Start>> {
        if let Some(template) = template {
            return Ok(vec![Start::template(&setup.model, &template.parts)?]);
        }
        let (length, min_length) = (setup.plan.length, setup.plan.min_length);
        let preset = setup.plan.preset.conventions();
        let start =
            |prompt: &String| Start::under(preset, &setup.model, prompt, length, min_length);
        prompts.iter().map(|prompt| Ok(start(prompt)?)).collect()
    }
}
