//! The plan of a run: every option after defaults, printed first and stored in every row.
//!
//! What changes no result (threads, batch sizes, file names) is no part of it, so rows are the same
//! bytes however they were computed. Knobs the method does not turn are `null`.

use clap::ValueEnum;
use serde::Serialize;
use treasure_core::{
    Potential, Resampling, Sampler, SelectKind, ValueKind, Width,
    methods::{Base, BestOfN, Code, FkReference, FkSteering, Greedy, NaiveTree, Svdd, Treasure},
};
use treasure_rewards::Preset;

use crate::{
    commands::generate::{Limits, RewardOptions},
    failure::{Failure, Outcome},
    options::{
        model::ModelOptions,
        search::{Method, SamplerKind, SearchOptions},
    },
};

/// Ancestral steps of a run that does not say: those of the reference.
const STEPS: usize = 1000;
/// The share that a screen lets through unless told otherwise.
const SCREEN_SHARE: f64 = 0.5;

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

/// The knobs of a method, `null` where it has none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Knobs {
    /// Children of a node.
    pub beam_width: Option<Width>,
    /// Nodes kept.
    pub tree_width: Option<Width>,
    /// Positions a node branches at.
    pub groups: Option<usize>,
    /// How children are valued.
    pub value: Option<ValueKind>,
    /// Which children live on.
    pub select: Option<SelectKind>,
    /// Confident commits.
    pub commit_threshold: Option<f64>,
    /// The cheap reward that ranks children first.
    pub screen: Option<String>,
    /// The share of the children that is scored exactly.
    pub screen_share: Option<f64>,
    /// What bon and fk run on.
    pub sampler: Option<SamplerKind>,
    /// The N of bon, fk, svdd and code.
    pub particles: Option<usize>,
    /// Ancestral steps.
    pub steps: Option<usize>,
    /// How hard fk steers.
    pub lambda: Option<f64>,
    /// The potential of fk.
    pub potential: Option<Potential>,
    /// Steps between resamplings.
    pub resample_every: Option<usize>,
    /// How fk resamples.
    pub resample: Option<Resampling>,
    /// The effective sample size that triggers resampling.
    pub ess: Option<f64>,
    /// Sampled completions behind one value.
    pub x0_samples: Option<usize>,
    /// Steps in a block.
    pub block: Option<usize>,
}

impl Knobs {
    /// The knobs of a method after defaults, for a sequence with `masks` masks.
    pub fn new(method: Method, given: &SearchOptions, masks: usize) -> Outcome<Self> {
        given.check_used(method)?;
        let number = |given: Option<std::num::NonZeroUsize>, default: usize| {
            Some(given.map_or(default, std::num::NonZeroUsize::get))
        };
        let mut knobs = Self::default();
        match method {
            Method::Treasure => {
                let default = Treasure::default();
                knobs.beam_width = Some(given.beam_width.clone().unwrap_or(default.beam_width));
                knobs.tree_width = Some(given.tree_width.clone().unwrap_or(default.tree_width));
                knobs.groups = number(given.groups, default.groups);
                knobs.value = Some(given.value.unwrap_or_default());
                knobs.select = Some(given.select.unwrap_or_default());
                knobs.commit_threshold = given.commit_threshold;
                knobs.screen.clone_from(&given.screen);
                knobs.screen_share =
                    given.screen.as_ref().map(|_| given.screen_share.unwrap_or(SCREEN_SHARE));
                if knobs.value == Some(ValueKind::Previous) {
                    knobs.x0_samples = number(given.x0_samples, default.x0_samples);
                } else if given.x0_samples.is_some() {
                    return Err(Failure::new(
                        "--x0-samples: this value needs no sampled completions",
                    )
                    .hint("leave it out, or choose --value previous"));
                }
            }
            Method::NaiveTree => {
                let default = NaiveTree::default();
                knobs.beam_width = Some(given.beam_width.clone().unwrap_or(default.beam_width));
                knobs.tree_width = Some(given.tree_width.clone().unwrap_or(default.tree_width));
                knobs.steps = number(given.steps, default.steps);
            }
            Method::Base => knobs.steps = number(given.steps, STEPS),
            Method::Fhs | Method::Greedy => {}
            Method::Bon | Method::Fk | Method::Svdd | Method::Code => {
                knobs.sampler = Some(given.sampler.unwrap_or(SamplerKind::Ancestral));
                if knobs.sampler == Some(SamplerKind::Ancestral) {
                    knobs.steps = number(given.steps, STEPS);
                } else if given.steps.is_some() {
                    return Err(Failure::new(
                        "--steps: first hitting takes one step a generated token",
                    )
                    .hint("leave it out, or choose --sampler ancestral"));
                }
                let fk = FkSteering { sampler: knobs.core_sampler(), ..FkSteering::default() };
                let particles = match method {
                    Method::Svdd => Svdd::default().particles,
                    Method::Code => Code::default().particles,
                    _ => fk.particles,
                };
                knobs.particles = number(given.particles, particles);
                if method == Method::Code {
                    knobs.block = number(given.block, Code::default().block);
                }
                if method == Method::Fk {
                    knobs.lambda = Some(given.lambda.unwrap_or(fk.lambda));
                    knobs.potential = Some(given.potential.unwrap_or_default());
                    knobs.resample_every = number(given.resample_every, fk.every(masks));
                    knobs.resample = Some(given.resample.unwrap_or_default());
                    knobs.ess = given.ess;
                    knobs.x0_samples = number(given.x0_samples, fk.x0_samples);
                }
            }
        }
        Ok(knobs)
    }

    /// The knobs of FK steering under the reference protocol, which fixes some of them.
    fn follow_reference(&mut self, given: &SearchOptions) -> Outcome<()> {
        let fixed = [
            (given.sampler.is_some(), "--sampler"),
            (given.steps.is_some(), "--steps"),
            (given.resample.is_some(), "--resample"),
            (given.ess.is_some(), "--ess"),
        ];
        if let Some((_, option)) = fixed.iter().find(|(given, _)| *given) {
            return Err(Failure::new(format!("{option}: the preset fk fixes it"))
                .hint("leave it out, or drop --preset fk"));
        }
        let every = FkReference::default().resample_every;
        self.steps = Some(1001);
        self.resample_every = Some(given.resample_every.map_or(every, std::num::NonZeroUsize::get));
        Ok(())
    }

    /// What a population runs on.
    fn core_sampler(&self) -> Sampler {
        match (self.sampler, self.steps) {
            (Some(SamplerKind::FirstHitting), _) => Sampler::FirstHitting,
            (_, steps) => Sampler::Ancestral { steps: steps.unwrap_or(STEPS) },
        }
    }

    /// The search these knobs describe.
    fn search(&self, method: Method) -> Box<dyn treasure_core::Method> {
        let widths = (self.beam_width.clone(), self.tree_width.clone());
        let particles = self.particles.unwrap_or(1);
        let sampler = self.core_sampler();
        match method {
            Method::Treasure => {
                let default = Treasure::default();
                Box::new(Treasure {
                    beam_width: widths.0.unwrap_or(default.beam_width),
                    tree_width: widths.1.unwrap_or(default.tree_width),
                    groups: self.groups.unwrap_or(default.groups),
                    value: self.value.unwrap_or_default(),
                    select: self.select.unwrap_or_default(),
                    x0_samples: self.x0_samples.unwrap_or(default.x0_samples),
                    commit_threshold: self.commit_threshold,
                    screen: self.screen_share,
                })
            }
            Method::NaiveTree => {
                let default = NaiveTree::default();
                Box::new(NaiveTree {
                    steps: self.steps.unwrap_or(default.steps),
                    beam_width: widths.0.unwrap_or(default.beam_width),
                    tree_width: widths.1.unwrap_or(default.tree_width),
                })
            }
            Method::Base => Box::new(Base { sampler }),
            Method::Fhs => Box::new(Base { sampler: Sampler::FirstHitting }),
            Method::Greedy => Box::new(Greedy {}),
            Method::Bon => Box::new(BestOfN { particles, sampler }),
            Method::Fk => Box::new(FkSteering {
                particles,
                sampler,
                lambda: self.lambda.unwrap_or(FkSteering::default().lambda),
                potential: self.potential.unwrap_or_default(),
                resample_every: self.resample_every,
                resample: self.resample.unwrap_or_default(),
                ess: self.ess,
                x0_samples: self.x0_samples.unwrap_or(FkSteering::default().x0_samples),
            }),
            Method::Svdd => Box::new(Svdd { particles, chains: 1, sampler }),
            Method::Code => {
                let block = self.block.unwrap_or(Code::default().block);
                Box::new(Code { particles, block, sampler })
            }
        }
    }
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
        Ok(Self {
            preset,
            protocol: (preset == PresetKind::Fk).then(Protocol::reference),
            model: asked.model.model.clone(),
            tokenizer: asked.model.tokenizer.clone(),
            mask_id: asked.model.mask_id,
            dtype: asked.model.dtype.clone(),
            read_as: asked.model.read_as.clone(),
            reward: asked.reward.reward.clone(),
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
