//! Experiment configs: what a preset file may say (`docs/experiments.md`).
//!
//! Guarantee: an unknown key, an unknown size and a number outside its domain are errors that name
//! the place; nothing is guessed.

mod method;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use treasure::{Hint as _, nearest, rewards::Spec};

pub use method::{Budget, LengthWord, Many, MethodConfig, Steps};

use crate::{Error, Result, error::PAGE, presets};

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

impl FromStr for Size {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let all = [Self::Paper, Self::Pocket, Self::Quick];
        all.into_iter().find(|size| size.name() == name).ok_or_else(|| Error::Invalid {
            what: "size".into(),
            expected: "paper, pocket or quick".into(),
            got: name.into(),
        })
    }
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

/// Where prompts come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Prompts {
    /// So many of the paper's.
    First(usize),
    /// All of a JSON Lines file, which lies beside the config.
    File(String),
}

/// Which text a reported perplexity is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PplOf {
    /// The continuation given the prompt; texts are averaged.
    #[default]
    Continuation,
    /// The whole text; log-perplexities are averaged.
    Text,
}

/// The settings of one size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeConfig {
    /// The denoiser.
    pub model: String,
    /// What products of the denoiser and the reward are computed in; judges that only report use f32.
    #[serde(default)]
    pub precision: Option<String>,
    /// Generated tokens.
    pub length: usize,
    /// No end-of-text before this many tokens.
    #[serde(default)]
    pub min_length: usize,
    /// Steps of the ancestral sampler.
    pub steps: usize,
    /// Continuations of each prompt.
    pub continuations: usize,
    /// How many of the paper's prompts, or a file of one's own.
    pub prompts: Prompts,
    /// Drop the blank lines in front of each prompt.
    #[serde(default)]
    pub strip_prompts: bool,
    /// The scorer of generative perplexity.
    pub ppl: String,
    /// Which text that perplexity is of.
    #[serde(default)]
    pub ppl_of: PplOf,
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
    /// Whose conventions hold for text windows and lengths.
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
    /// The folder that file names are relative to.
    #[serde(skip)]
    pub folder: PathBuf,
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
                    hint: "name a preset, or a config by its path from the folder that you are in"
                        .into(),
                }
            })?;
            let folder = Path::new(name_or_path).parent().unwrap_or(Path::new(""));
            return Ok(Self { folder: folder.into(), ..Self::parse(name_or_path, &text)? });
        }
        let near = nearest(name_or_path, presets::NAMES);
        Err(Error::UnknownPreset {
            name: name_or_path.into(),
            known: presets::NAMES.join(", "),
            near: near.map(str::to_owned),
        })
    }

    /// A config from its text; `name` is for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let message = error.to_string().trim_end().to_owned();
            Error::Config { name: name.into(), hint: meant(&message), message }
        })?;
        config.check(name)?;
        Ok(config)
    }

    fn check(&self, file: &str) -> Result<()> {
        let told = |message, hint| Err(Error::Config { name: file.into(), message, hint });
        let fail = |message| told(message, PAGE.into());
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            return fail(format!("name: expected letters, digits and dashes, got {:?}", self.name));
        }
        for reward in &self.reward {
            let judges = [&reward.accuracy, &reward.heldout, &reward.heldout_accuracy];
            for spec in judges.into_iter().flatten().chain([&reward.spec]) {
                if let Err(error) = spec.parse::<Spec>() {
                    let hint = error.hint().map_or(PAGE.into(), |hint| hint.into_owned().into());
                    return told(format!("reward {:?}: {error}", reward.name), hint);
                }
            }
        }
        for (size, settings) in &self.size {
            let place = format!("size.{}", size.name());
            for (key, number) in [
                ("length", settings.length),
                ("steps", settings.steps),
                ("continuations", settings.continuations),
                ("prompts", if settings.prompts == Prompts::First(0) { 0 } else { 1 }),
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

/// Whether something limited to some sizes applies at a size.
pub(crate) fn applies(sizes: &Option<Vec<Size>>, size: Size) -> bool {
    sizes.as_ref().is_none_or(|sizes| sizes.contains(&size))
}

/// What can be done about a config that TOML refuses: the key that was probably meant, and where all are.
fn meant(message: &str) -> Cow<'static, str> {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match (message.contains("unknown field"), &quoted[..]) {
        (true, [unknown, known @ ..]) => match nearest(unknown, known.iter().copied()) {
            Some(near) => format!("did you mean {near}? {PAGE}").into(),
            None => PAGE.into(),
        },
        _ => PAGE.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_config_is_told_the_nearest_key_or_where_the_keys_are() {
        let told = meant("TOML parse error\nunknown field `lenght`, expected `length`, `steps`");
        assert_eq!(told, format!("did you mean length? {PAGE}"));
        assert_eq!(meant("missing field `seed`"), PAGE);
    }
}
