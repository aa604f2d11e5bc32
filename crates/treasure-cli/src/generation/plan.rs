//! The plan of a run: every option after defaults, printed first and stored in every row.
//!
//! What changes no result (threads, batch sizes, file names) is no part of it, so rows are the same
//! bytes however they were computed. Knobs the method does not turn are `null`.

use clap::ValueEnum;
use serde::Serialize;
use treasure_core::methods::FkReference;
use treasure_rewards::Preset;

use super::knobs::Knobs;
use crate::{
    commands::generate::{Limits, RewardOptions},
    failure::{Failure, Outcome},
    options::{
        model::ModelOptions,
        search::{Method, SearchOptions},
    },
};

/// Whose conventions a run follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PresetKind {
    /// Whole texts; length counts generated tokens
    #[default]
    Plain,
    /// The reference protocol of FK steering: its text windows, lengths and, with --method fk, its rules
    Fk,
}

impl PresetKind {
    /// The conventions of rewards.
    pub fn conventions(self) -> Preset {
        match self {
            Self::Plain => Preset::Plain,
            Self::Fk => Preset::Fk,
        }
    }
}

/// What the `fk` preset stands for, spelled out in the plan.
#[derive(Clone, Debug, Serialize)]
pub struct Protocol {
    /// BOS and prompt count towards the length.
    pub length_includes_prompt: bool,
    /// Spaces before punctuation are dropped before scoring.
    pub clean_up_spaces: bool,
    /// Tokens a classifier sees, its two special ones not counted; the shipped sentiment judge sees 510.
    pub classifier_window: usize,
    /// Tokens a scorer sees, BOS not counted.
    pub scorer_window: usize,
    /// What multiplies −mean NLL.
    pub scorer_factor: f64,
    /// Ancestral steps of `--method fk`.
    pub fk_steps: usize,
    /// Resampling events of `--method fk` at its default interval.
    pub fk_events: usize,
    /// How `--method fk` weighs.
    pub fk_weights: &'static str,
    /// How `--method fk` chooses.
    pub fk_choice: &'static str,
    /// What is not imitated.
    pub differs: &'static str,
}

impl Protocol {
    fn reference() -> Self {
        Self {
            length_includes_prompt: true,
            clean_up_spaces: true,
            classifier_window: Preset::FK_CLASSIFIER_TOKENS - 2,
            scorer_window: Preset::FK_SCORER_TOKENS,
            scorer_factor: std::f64::consts::LN_2,
            fk_steps: 1001,
            fk_events: 51,
            fk_weights: "float32, clamped to [0, 1e10], all-zero becomes uniform",
            fk_choice: "argmax after the final resampling",
            differs: "random stream; draws in float64 by inverse CDF",
        }
    }
}

/// Every option after defaults.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Whose conventions hold.
    pub preset: PresetKind,
    /// The reference protocol's rules, with the preset `fk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// The denoiser.
    pub model: String,
    /// Where the tokenizer comes from, if not from the model.
    pub tokenizer: Option<String>,
    /// The mask id, if it was given.
    pub mask_id: Option<u32>,
    /// How weights are held.
    pub dtype: String,
    /// The architecture the files are read as, if it was given.
    #[serde(rename = "as")]
    pub read_as: Option<String>,
    /// The reward.
    pub reward: String,
    /// How the weights of rewards are held.
    pub reward_dtype: String,
    /// Held-out judges.
    pub judge: Vec<String>,
    /// The template, if the holes of one are filled.
    pub template: Option<String>,
    /// Generated tokens.
    pub length: usize,
    /// No end of text before this many.
    pub min_length: usize,
    /// Outputs a prompt gets.
    pub samples: usize,
    /// The seed.
    pub seed: u64,
    /// The method.
    pub method: Method,
    /// The method's knobs.
    #[serde(flatten)]
    pub knobs: Knobs,
    /// Budget: model calls.
    pub max_nfe: Option<u64>,
    /// Budget: reward calls.
    pub max_reward_calls: Option<u64>,
    /// Budget: seconds.
    pub max_seconds: Option<f64>,
    /// Stop once the reward is there.
    pub target_reward: Option<f64>,
}

/// What a plan is made of, as the user gave it.
pub struct Asked<'a> {
    /// The denoiser.
    pub model: &'a ModelOptions,
    /// The reward.
    pub reward: &'a RewardOptions,
    /// Length and budget.
    pub limits: &'a Limits,
    /// The knobs.
    pub search: &'a SearchOptions,
    /// The method.
    pub method: Method,
    /// The template's text and its masks.
    pub template: Option<(&'a str, usize)>,
    /// Outputs a prompt gets.
    pub samples: usize,
    /// The seed.
    pub seed: u64,
    /// Whose conventions hold.
    pub preset: PresetKind,
}

impl Plan {
    /// The search this plan describes.
    pub fn search(&self) -> Box<dyn treasure_core::Method> {
        match (self.preset, self.method) {
            (PresetKind::Fk, Method::Fk) => {
                let default = FkReference::default();
                Box::new(FkReference {
                    particles: self.knobs.particles.unwrap_or(default.particles),
                    lambda: self.knobs.lambda.unwrap_or(default.lambda),
                    potential: self.knobs.potential.unwrap_or(default.potential),
                    resample_every: self.knobs.resample_every.unwrap_or(default.resample_every),
                    x0_samples: self.knobs.x0_samples.unwrap_or(default.x0_samples),
                })
            }
            _ => self.knobs.search(self.method),
        }
    }

    /// The plan, after checking all that can be checked without a model.
    pub fn new(asked: &Asked<'_>) -> Outcome<Self> {
        let (length, min_length) = match asked.template {
            Some((_, masks)) => (masks, masks),
            None => asked.limits.lengths(asked.preset)?,
        };
        if let Some(seconds) = asked.limits.max_seconds
            && !(seconds > 0.0 && seconds.is_finite())
        {
            return Err(Failure::new(format!(
                "--max-seconds: expected a positive number, got {seconds}"
            )));
        }
        if asked.limits.target_reward.is_some_and(|target| !target.is_finite()) {
            return Err(Failure::new("--target-reward: expected a finite number"));
        }
        let mut knobs = Knobs::new(asked.method, asked.search, length)?;
        let preset = asked.preset;
        if preset == PresetKind::Fk && asked.method == Method::Fk {
            knobs.follow_reference(asked.search)?;
        }
        let checkpoint = &asked.model.checkpoint;
        Ok(Self {
            preset,
            protocol: (preset == PresetKind::Fk).then(Protocol::reference),
            model: asked.model.model.clone(),
            tokenizer: checkpoint.tokenizer.clone(),
            mask_id: checkpoint.mask_id,
            dtype: checkpoint.dtype.clone(),
            read_as: checkpoint.read_as.clone(),
            reward: asked.reward.reward.clone(),
            reward_dtype: asked.reward.reward_dtype.clone(),
            judge: asked.reward.judge.clone(),
            template: asked.template.map(|(text, _)| text.to_string()),
            length,
            min_length,
            samples: asked.samples,
            seed: asked.seed,
            method: asked.method,
            knobs,
            max_nfe: asked.limits.max_nfe,
            max_reward_calls: asked.limits.max_reward_calls,
            max_seconds: asked.limits.max_seconds,
            target_reward: asked.limits.target_reward,
        })
    }

    /// The plan in a line, for people.
    pub fn line(&self) -> String {
        let knobs = &self.knobs;
        let mut method = self.method.name().to_string();
        if let (Some(b), Some(m)) = (&knobs.beam_width, &knobs.tree_width) {
            method += &format!(" b={b} m={m}");
        }
        if let Some(particles) = knobs.particles {
            method += &format!(" N={particles}");
        }
        if let Some(steps) = knobs.steps {
            method += &format!(" T={steps}");
        }
        let mut line = format!(
            "plan: {} · reward {} · {method} · {} tokens",
            self.model, self.reward, self.length
        );
        if self.template.is_none() && self.min_length > 0 {
            line += &format!(" (no end before {})", self.min_length);
        }
        if self.samples > 1 {
            line += &format!(" · {} samples", self.samples);
        }
        line + &format!(" · seed {}", self.seed)
    }
}
