//! Experiment configs: what a preset file may say.
//!
//! Guarantee: an unknown key, an unknown size and a number outside its domain are errors that name
//! the place; nothing is guessed.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Error, Result, presets};

/// What an experiment measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Texts made by methods, scored by judges.
    Search,
    /// Distinct children of parallel sampling (the paper's Figure 2).
    Branching,
    /// The spread of the reward over sampled completions (Figures 3 and 6).
    Variation,
}

/// How large an experiment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// The paper's own size, for people with GPUs.
    Paper,
    /// A few hours on two cores.
    #[default]
    Pocket,
    /// Minutes.
    Quick,
}

impl Size {
    /// The name used in configs and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Pocket => "pocket",
            Self::Quick => "quick",
        }
    }
}

/// A number, or one for each size.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum BySize {
    /// The same at each size.
    All(usize),
    /// Only the named sizes are limited.
    Each(BTreeMap<Size, usize>),
}

impl BySize {
    /// The number at a size.
    pub fn at(&self, size: Size) -> Option<usize> {
        match self {
            Self::All(number) => Some(*number),
            Self::Each(numbers) => numbers.get(&size).copied(),
        }
    }
}

/// How many candidates a best of N may look at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Particles {
    /// One variant for each number.
    Counts(Vec<usize>),
    /// As many as make the same number of reward calls (`reward-calls`) or take the same time
    /// (`seconds`) as TReASURe at `matched`.
    Matched(Budget),
}

/// A number of steps, or as many as tokens are generated (`"length"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Steps {
    /// So many.
    Number(usize),
    /// As many as tokens: one reveal a step on average.
    Length(LengthWord),
}

/// The word `length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LengthWord {
    /// The size's length.
    Length,
}

impl Steps {
    /// The number of steps when `length` tokens are generated.
    pub fn at(self, length: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Length(LengthWord::Length) => length,
        }
    }
}

/// What a matched control has in common with TReASURe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// The nominal number of reward calls, b + (n − 1) b m.
    RewardCalls,
    /// Wall clock, calibrated once.
    Seconds,
}

/// The settings of one size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeConfig {
    /// The denoiser.
    pub model: String,
    /// Generated tokens.
    pub length: usize,
    /// No end-of-text before this many tokens.
    #[serde(default)]
    pub min_length: usize,
    /// Steps of the ancestral sampler.
    pub steps: usize,
    /// Continuations of each prompt.
    pub continuations: usize,
    /// How many of the prompts.
    pub prompts: usize,
    /// Drop the blank lines in front of each prompt.
    #[serde(default)]
    pub strip_prompts: bool,
    /// The scorer of generative perplexity.
    pub ppl: String,
    /// Which rewards, by name.
    pub rewards: Vec<String>,
    /// How many traces of each traced method are kept for the report.
    #[serde(default)]
    pub traces: usize,
    /// Completions of each state, for reward variation.
    #[serde(default)]
    pub completions: usize,
    /// Every how many masks a state is looked at, for reward variation.
    #[serde(default)]
    pub every: usize,
}

/// A reward to optimise, with its judges.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardConfig {
    /// The name in tables.
    pub name: String,
    /// What the search optimises.
    pub spec: String,
    /// The judge's decision, 1 or 0; absent for rewards that decide nothing.
    pub accuracy: Option<String>,
    /// An independent judge of the same property.
    pub heldout: Option<String>,
    /// That judge's decision.
    pub heldout_accuracy: Option<String>,
    /// The sizes it applies to; all when absent.
    pub sizes: Option<Vec<Size>>,
}

/// A method with the settings to try.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodConfig {
    /// The name in tables.
    pub name: String,
    /// `treasure`, `base`, `fhs`, `greedy`, `bon`, `fk`, `svdd`, `code` or `naive-tree`.
    pub method: String,
    /// Pairs (b, m), one variant each.
    pub widths: Option<Vec<(usize, usize)>>,
    /// Numbers of particles, one variant each, or what to match.
    pub particles: Option<Particles>,
    /// The pair (b, m) whose cost a matched control has.
    pub matched: Option<(usize, usize)>,
    /// Numbers of unmasking groups, one variant each.
    pub groups: Option<Vec<usize>>,
    /// `ancestral` or `first-hitting`.
    pub sampler: Option<String>,
    /// `resubstitute`, `previous`, `previous-argmax` or `posterior`.
    pub value: Option<String>,
    /// `top` or `nested`.
    pub select: Option<String>,
    /// Completions per particle in FK, or per parent in previous-step scoring.
    pub x0_samples: Option<usize>,
    /// FK's λ.
    pub lambda: Option<f64>,
    /// FK's potential.
    pub potential: Option<String>,
    /// FK resamples every so many steps.
    pub resample_every: Option<usize>,
    /// Steps of the sampler, one variant each, where they differ from the size's.
    pub steps: Option<Vec<Steps>>,
    /// At most this many prompts.
    pub prompts: Option<BySize>,
    /// The sizes it applies to; all when absent.
    pub sizes: Option<Vec<Size>>,
    /// Draw the candidates once and let every reward choose among them.
    #[serde(default)]
    pub shared: bool,
    /// Keep traces of this method.
    #[serde(default)]
    pub trace: bool,
    /// N of a wall-clock match that was calibrated before, by reward.
    #[serde(default)]
    pub calibrated: BTreeMap<String, usize>,
}

/// A whole experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The preset's name.
    pub name: String,
    /// What it shows, one sentence.
    pub title: String,
    /// What it measures.
    pub kind: Kind,
    /// Follow the reference protocol of FK steering to the letter.
    #[serde(default)]
    pub protocol: Protocol,
    /// The root of all randomness.
    pub seed: u64,
    /// The settings of each size.
    pub size: BTreeMap<Size, SizeConfig>,
    /// The rewards.
    #[serde(default)]
    pub reward: Vec<RewardConfig>,
    /// The methods.
    pub method: Vec<MethodConfig>,
}

/// Whose conventions hold for text windows and lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The project's own: no windows, length counts generated tokens.
    #[default]
    Own,
    /// The reference's: windows of 48 and 19 tokens, BOS and prompt inside the length.
    Fk,
}

impl Config {
    /// A preset by name, or a config by path (anything with a slash or ending in `.toml`).
    pub fn load(name_or_path: &str) -> Result<Self> {
        if let Some(text) = presets::text(name_or_path) {
            return Self::parse(name_or_path, text);
        }
        if name_or_path.ends_with(".toml") || name_or_path.contains('/') {
            let text = std::fs::read_to_string(Path::new(name_or_path)).map_err(|error| {
                Error::Config {
                    name: name_or_path.into(),
                    message: format!("cannot be read: {error}"),
                }
            })?;
            return Self::parse(name_or_path, &text);
        }
        Err(Error::UnknownPreset { name: name_or_path.into(), known: presets::NAMES.join(", ") })
    }

    /// A config from its text; `name` is for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text)
            .map_err(|error| Error::Config { name: name.into(), message: error.to_string() })?;
        config.check(name)?;
        Ok(config)
    }

    fn check(&self, file: &str) -> Result<()> {
        let fail = |message: String| Err(Error::Config { name: file.into(), message });
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            return fail(format!("name: expected letters, digits and dashes, got {:?}", self.name));
        }
        for (size, settings) in &self.size {
            let place = format!("size.{}", size.name());
            for (key, number) in [
                ("length", settings.length),
                ("steps", settings.steps),
                ("continuations", settings.continuations),
                ("prompts", settings.prompts),
            ] {
                if number == 0 {
                    return fail(format!("{place}.{key}: expected at least 1, got 0"));
                }
            }
            if settings.min_length > settings.length {
                return fail(format!(
                    "{place}.min_length: expected at most length = {}, got {}",
                    settings.length, settings.min_length
                ));
            }
            if self.kind == Kind::Variation && (settings.completions == 0 || settings.every == 0) {
                return fail(format!("{place}: completions and every must be at least 1"));
            }
            for name in &settings.rewards {
                if !self
                    .reward
                    .iter()
                    .any(|reward| reward.name == *name && applies(&reward.sizes, *size))
                {
                    return fail(format!(
                        "{place}.rewards: no [[reward]] named {name:?} at this size"
                    ));
                }
            }
        }
        if self.method.is_empty() {
            return fail("method: expected at least one, got none".into());
        }
        for method in &self.method {
            method
                .check()
                .or_else(|message| fail(format!("method {:?}: {message}", method.name)))?;
        }
        Ok(())
    }
}

impl MethodConfig {
    fn check(&self) -> Result<(), String> {
        const METHODS: [&str; 9] =
            ["treasure", "base", "fhs", "greedy", "bon", "fk", "svdd", "code", "naive-tree"];
        if !METHODS.contains(&self.method.as_str()) {
            return Err(format!(
                "method: expected one of {}, got {:?}",
                METHODS.join(", "),
                self.method
            ));
        }
        let tree = matches!(self.method.as_str(), "treasure" | "naive-tree");
        if tree && self.widths.as_ref().is_none_or(Vec::is_empty) {
            return Err("widths: a tree search needs at least one pair [b, m]".into());
        }
        if matches!(self.method.as_str(), "bon" | "fk" | "svdd" | "code")
            && self.particles.is_none()
        {
            return Err(
                "particles: expected a list of numbers, \"reward-calls\" or \"seconds\"".into()
            );
        }
        if matches!(self.particles, Some(Particles::Matched(_)))
            && (self.method != "bon" || self.matched.is_none())
        {
            return Err(
                "particles: only bon can be matched, and matched = [b, m] says to what".into()
            );
        }
        if self.shared && self.method != "bon" {
            return Err("shared: only the candidates of bon can be shared".into());
        }
        let widths = self.widths.iter().flatten().flat_map(|&(b, m)| [b, m]);
        let counts = match &self.particles {
            Some(Particles::Counts(counts)) => counts.as_slice(),
            _ => &[],
        };
        let steps = self.steps.iter().flatten().map(|steps| steps.at(1));
        let others = self.groups.iter().flatten().copied().chain(steps);
        if widths.chain(counts.iter().copied()).chain(others).any(|number| number == 0) {
            return Err("widths, particles, groups and steps: expected at least 1, got 0".into());
        }
        Ok(())
    }
}

/// Whether something limited to some sizes applies at a size.
pub(crate) fn applies(sizes: &Option<Vec<Size>>, size: Size) -> bool {
    sizes.as_ref().is_none_or(|sizes| sizes.contains(&size))
}
