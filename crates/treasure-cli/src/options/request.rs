//! From flags to a request.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use serde_json::{Map, Value};
use treasure::{Method, Preset, Request};

use crate::{
    failure::{Failure, Outcome},
    input,
};

/// Whose conventions a run follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PresetKind {
    /// Text worth reading: the defaults chosen by measurement
    #[default]
    Plain,
    /// Algorithms 1–3 of the paper to the letter
    Paper,
    /// The reference protocol of FK steering: its text windows, lengths and, with --method fk, its rules
    Fk,
}

impl From<PresetKind> for Preset {
    fn from(kind: PresetKind) -> Self {
        match kind {
            PresetKind::Plain => Self::Plain,
            PresetKind::Paper => Self::Paper,
            PresetKind::Fk => Self::Fk,
        }
    }
}

/// The denoiser and how to load it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Model")]
pub struct ModelOptions {
    /// `pocket`, a directory in Hugging Face layout, or a hub id
    #[arg(long, value_name = "MODEL", default_value = "pocket")]
    pub model: String,
    /// How to read its files.
    #[command(flatten)]
    pub checkpoint: CheckpointOptions,
    /// Most states in one model batch; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub batch_size: Option<NonZeroUsize>,
}

/// How to read a checkpoint's files.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckpointOptions {
    /// Directory or hub id of the tokenizer, where the model ships none
    #[arg(long, value_name = "DIR-OR-ID")]
    pub tokenizer: Option<String>,
    /// The mask token's id, where the checkpoint does not say
    #[arg(long, value_name = "ID")]
    pub mask_id: Option<u32>,
    /// How weights are held in memory: auto, f32, f16, bf16 or int8
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub dtype: String,
    /// Read the files as another architecture, such as `diffullama`
    #[arg(long = "as", value_name = "ARCHITECTURE")]
    pub read_as: Option<String>,
}

impl ModelOptions {
    /// The request's part.
    pub fn fill(&self, request: &mut Request) {
        request.model = Some(self.model.clone());
        self.checkpoint.fill(request);
    }
}

impl CheckpointOptions {
    /// The request's part.
    pub fn fill(&self, request: &mut Request) {
        request.tokenizer.clone_from(&self.tokenizer);
        request.mask_id = self.mask_id;
        request.dtype = Some(self.dtype.clone());
        request.read_as.clone_from(&self.read_as);
    }
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

impl RewardOptions {
    /// The request's part.
    pub fn fill(&self, request: &mut Request) {
        request.reward = Some(self.reward.clone());
        request.judge.clone_from(&self.judge);
        request.reward_dtype = Some(self.reward_dtype.clone());
    }
}

/// Length and budget.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Length and budget")]
pub struct Limits {
    /// Tokens to generate (LLaDA's gen_length, Dream's max_new_tokens) [default: 48]
    #[arg(long, value_name = "N")]
    pub length: Option<usize>,
    /// No end of text before this many tokens [default: 24, or the length if that is less]
    #[arg(long, value_name = "N")]
    pub min_length: Option<usize>,
    /// Stop a sample after this many model calls (NFE, number of function evaluations)
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

impl Limits {
    /// The request's part.
    pub fn fill(&self, request: &mut Request) {
        request.length = self.length;
        request.min_length = self.min_length;
        request.max_nfe = self.max_nfe;
        request.max_reward_calls = self.max_reward_calls;
        request.max_seconds = self.max_seconds;
        request.target_reward = self.target_reward;
    }
}

/// What every text must satisfy, whatever the reward.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Constraints (every text satisfies them)")]
pub struct Constraints {
    /// The continuation matches this regular expression, whole (mind the space after the prompt)
    #[arg(long, value_name = "REGEX", group = "constraint")]
    pub matches: Option<String>,
    /// The continuation is JSON that is valid under the schema in this file
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub json_schema: Option<PathBuf>,
    /// The continuation is one of these, spaces included
    #[arg(long, value_name = "A,B,…", group = "constraint", value_delimiter = ',')]
    pub choices: Vec<String>,
}

impl Constraints {
    /// The request's part.
    pub fn fill(&self, request: &mut Request) -> Outcome<()> {
        request.matches.clone_from(&self.matches);
        if !self.choices.is_empty() {
            request.choices = Some(self.choices.clone());
        }
        if let Some(path) = &self.json_schema {
            let schema = serde_json::from_str(&input::read(path)?).map_err(|error| {
                let message = format!("{}: expected a JSON Schema, got {error}", path.display());
                Failure::new(message)
            })?;
            request.json_schema = Some(schema);
        }
        Ok(())
    }
}

/// A number where it is one, else the word as written: what it must be is the method's to say.
fn value(text: &str) -> Result<Value, String> {
    Ok(match serde_json::from_str::<Value>(text) {
        Ok(number @ Value::Number(_)) => number,
        _ => Value::String(text.to_owned()),
    })
}

fn setting(text: &str) -> Result<(String, Value), String> {
    let (name, given) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim_start_matches("--").replace('-', "_"), value(given)?))
}

macro_rules! search_options {
    ($($(#[$doc:meta])* $name:ident: $value:literal),+ $(,)?) => {
        /// The method's knobs; absent knobs get the method's default.
        #[derive(Args, Clone, Debug, Default)]
        #[command(next_help_heading = "Search")]
        pub struct SearchOptions {
            $($(#[$doc])* #[arg(long, value_name = $value, value_parser = value, allow_negative_numbers = true)]
            pub $name: Option<Value>,)+
            /// A cheap reward that ranks the children first; only the best share is scored (not exact)
            #[arg(long, value_name = "SPEC")]
            pub screen: Option<String>,
            /// Which text is handed back: best-seen, final or draw [default: best-seen]
            #[arg(long, value_name = "ANSWER")]
            pub answer: Option<String>,
            /// Any other option of a method, by name; may be repeated
            #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
            pub set: Vec<(String, Value)>,
        }

        impl SearchOptions {
            /// The knobs that were given, by name.
            pub fn given(&self) -> Map<String, Value> {
                let mut given = Map::new();
                $(if let Some(value) = &self.$name {
                    given.insert(stringify!($name).into(), value.clone());
                })+
                given.extend(self.set.iter().cloned());
                given
            }
        }
    };
}

search_options! {
    /// Children of a node, the paper's b: `5`, `linear:8..2`, `cosine:8..2` or `8,8,4` [default: 5]
    beam_width: "WIDTH",
    /// Nodes kept at a step, the paper's m [default: 2]
    tree_width: "WIDTH",
    /// Positions a node branches at, the paper's k [default: 1]
    groups: "K",
    /// Which mask is revealed next: uniform (the paper), confidence or left-to-right
    order: "ORDER",
    /// Compare children by reward + A · log p of what was committed; 0 is the paper
    prior: "A",
    /// + W · the share of distinct bigrams when children are compared; 0 is the paper
    variety: "W",
    /// Do not try tokens below this share of the likeliest one's probability (two always are)
    min_p: "P",
    /// Predictions used to fill a text before it is scored; each is a model call a child [default: 1]
    looks: "N",
    /// How children are valued: resubstitute, previous, previous-argmax or posterior [default: resubstitute]
    value: "VALUE",
    /// Which children live on: top, or nested (wider is never worse) [default: top]
    select: "RULE",
    /// After branching, also commit masks at least this probable (fewer steps, not exact)
    commit_threshold: "P",
    /// The share of each node's children that --screen lets through [default: 0.5]
    screen_share: "SHARE",
    /// What bon, fk, svdd and code run on: ancestral or first-hitting [default: ancestral]
    sampler: "SAMPLER",
    /// The N of bon, fk, svdd and code [default: 4, svdd 10]
    particles: "N",
    /// Ancestral steps T [default: 1000]
    steps: "T",
    /// How hard a sampling method steers; multiplies the reward [default: 10]
    lambda: "λ",
    /// The potential of fk: diff, max, add or rt [default: diff]
    potential: "POTENTIAL",
    /// Steps between two resamplings of fk [default: a fiftieth of the steps]
    resample_every: "N",
    /// How particles are resampled: multinomial, systematic or residual [default: multinomial]
    resample: "SCHEME",
    /// Resample only when the effective sample size falls below this share of the particles
    ess: "SHARE",
    /// Sampled completions behind one value of fk or --value previous [default: 4]
    x0_samples: "N",
    /// Steps in a block of code [default: 20]
    code_block: "N",
}

impl SearchOptions {
    /// The request's part.
    pub fn fill(&self, request: &mut Request) {
        request.options = self.given();
        request.screen.clone_from(&self.screen);
        request.answer.clone_from(&self.answer);
    }

    /// The same knobs without those that a method does not have.
    #[must_use]
    pub fn only_for(&self, method: &str) -> Map<String, Value> {
        let mut given = self.given();
        given.retain(|option, _| Method::with_option(option).contains(&method));
        given
    }

    /// Refuses knobs that were given although none of several methods turns them.
    pub fn check_used_by_one(&self, methods: &[String]) -> Outcome<()> {
        for option in self.given().keys() {
            let users = Method::with_option(option);
            if !methods.iter().any(|method| users.contains(&method.as_str())) {
                let flag = format!("--{}", option.replace('_', "-"));
                return Err(Failure::new(format!(
                    "{flag}: no method of --methods has a use for it"
                ))
                .hint(format!("leave it out, or compare with {}", users.join(" or "))));
            }
        }
        Ok(())
    }
}

/// The names of the methods, for `--method` and `--methods`.
pub fn method_names() -> PossibleValuesParser {
    PossibleValuesParser::new(Method::NAMES.iter().copied())
}
