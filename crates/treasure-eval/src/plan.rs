//! Config → plan: every variant, prompt and reward spelled out, and the ordered list of cells.
//!
//! Guarantee: the cells, their names and their keys are functions of the plan alone. A key depends on
//! seed, prompt and continuation but not on method or reward, so that methods are compared on common
//! randomness and any sharding gives the same bytes.

mod cells;
mod variant;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use treasure::{
    Preset, Request,
    models::{Dtype, exec::Precision},
    rewards::Spec,
};

pub use cells::Cell;
pub use variant::Variant;

use crate::{
    Error, Result,
    config::{Config, Kind, PplOf, Prompts, Protocol, RewardConfig, Size, applies},
    presets,
};

/// The reward of cells in which nothing is optimised: every text is worth 0.
pub const NO_REWARD: &str = "own:no-reward";

/// A reward of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedReward {
    /// The name in tables.
    pub name: String,
    /// What the search optimises.
    pub spec: String,
    /// The judge's decision.
    pub accuracy: Option<String>,
    /// The held-out judge.
    pub heldout: Option<String>,
    /// The held-out judge's decision.
    pub heldout_accuracy: Option<String>,
}

/// Everything a run does, after all defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The preset.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What it measures.
    pub kind: Kind,
    /// Whose conventions hold.
    pub protocol: Protocol,
    /// The size.
    pub size: Size,
    /// The root of all randomness.
    pub seed: u64,
    /// The denoiser.
    pub model: String,
    /// What products of the denoiser and the reward are computed in; absent for f32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// The scorer of generative perplexity.
    pub ppl: String,
    /// Which text that perplexity is of; absent for continuations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ppl_of: PplOf,
    /// Generated tokens.
    pub length: usize,
    /// No end-of-text before this many.
    pub min_length: usize,
    /// Continuations of each prompt.
    pub continuations: usize,
    /// Completions of each state, for reward variation.
    pub completions: usize,
    /// Every how many masks a state is looked at, for reward variation.
    pub every: usize,
    /// Traces kept for each traced variant and reward.
    pub traces: usize,
    /// The prompts.
    pub prompts: Vec<String>,
    /// The rewards.
    pub rewards: Vec<PlannedReward>,
    /// The variants.
    pub variants: Vec<Variant>,
    /// What rows of this kind count: 1 counted states without masks among the branching ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub edition: Edition,
}

/// The edition of a kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edition(pub u32);

impl Default for Edition {
    fn default() -> Self {
        Self(1)
    }
}

/// Refuses a count outside of what the one table of limits allows.
fn bounded(what: &str, count: usize) -> Result<()> {
    let most = treasure::Bound::of(what).map_or(u64::MAX, |bound| bound.most);
    if count >= 1 && count as u64 <= most {
        return Ok(());
    }
    let what = if what == "cells" { "samples of the experiment" } else { "continuations" };
    let expected = format!("from 1 to {most}");
    Err(Error::Invalid { what: what.into(), expected, got: count.to_string() })
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a user may change about a preset.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Another denoiser.
    pub model: Option<String>,
    /// Another number of continuations.
    pub continuations: Option<usize>,
    /// Another seed.
    pub seed: Option<u64>,
    /// Fewer prompts.
    pub prompts: Option<usize>,
    /// Another scorer of perplexity.
    pub ppl: Option<String>,
    /// How the denoiser's weights are held in memory.
    pub dtype: Dtype,
}

impl Plan {
    /// The plan of a config at a size.
    pub fn new(config: &Config, size: Size, overrides: &Overrides) -> Result<Self> {
        let settings = config.size.get(&size).ok_or_else(|| {
            let there = config.size.keys().map(|size| format!("[size.{}]", size.name()));
            let there = there.collect::<Vec<_>>().join(", ");
            let got = if there.is_empty() { "none" } else { there.as_str() };
            let message = format!("size: expected [size.{}], got {got}", size.name());
            let hint = "run a size that is there, or write its table".into();
            Error::Config { name: config.name.clone(), message, hint }
        })?;
        let (all, usual) = match &settings.prompts {
            Prompts::First(count) => (presets::prompts(), *count),
            Prompts::File(name) => {
                let all = presets::prompts_of(&config.folder.join(name))?;
                let count = all.len();
                (all, count)
            }
        };
        let wanted = overrides.prompts.unwrap_or(usual);
        if wanted == 0 || wanted > all.len() {
            return Err(Error::Invalid {
                what: "prompts".into(),
                expected: format!("1 to {}", all.len()),
                got: wanted.to_string(),
            });
        }
        let continuations = overrides.continuations.unwrap_or(settings.continuations);
        bounded("continuations", continuations)?;
        let strip = |prompt: String| match settings.strip_prompts {
            true => prompt.trim_start_matches('\n').to_owned(),
            false => prompt,
        };
        let rewards: Vec<_> = settings
            .rewards
            .iter()
            .filter_map(|name| {
                config.reward.iter().find(|r| r.name == *name && applies(&r.sizes, size))
            })
            .map(PlannedReward::from)
            .collect();
        let mut plan = Self {
            name: config.name.clone(),
            title: config.title.clone(),
            kind: config.kind,
            protocol: config.protocol,
            size,
            seed: overrides.seed.unwrap_or(config.seed),
            model: overrides.model.clone().unwrap_or_else(|| settings.model.clone()),
            precision: None,
            ppl: overrides.ppl.clone().unwrap_or_else(|| settings.ppl.clone()),
            ppl_of: settings.ppl_of,
            length: settings.length,
            min_length: settings.min_length,
            continuations,
            completions: settings.completions,
            every: settings.every,
            traces: settings.traces,
            prompts: all.into_iter().take(wanted).map(strip).collect(),
            rewards,
            variants: Vec::new(),
            edition: Edition(if config.kind == Kind::Branching { 2 } else { 1 }),
        };
        for method in config.method.iter().filter(|method| applies(&method.sizes, size)) {
            let mut variants = variant::expand(&plan, method, settings.steps)?;
            // Another number than the size's own is meant for all methods.
            if continuations != settings.continuations {
                variants.iter_mut().for_each(|variant| variant.continuations = None);
            }
            plan.variants.extend(variants);
        }
        plan.precision = plan.multiplied_in(settings.precision.as_deref(), overrides.dtype)?;
        // Before they are listed.
        let each = plan.prompts.len().saturating_mul(plan.rewards.len().max(1));
        let cells = plan
            .variants
            .iter()
            .map(|variant| variant.continuations.unwrap_or(continuations).saturating_mul(each));
        let cells = cells.fold(0, usize::saturating_add);
        if cells > 0 {
            bounded("cells", cells)?;
        }
        let mut ids: Vec<_> = plan.variants.iter().map(|variant| &variant.id).collect();
        ids.sort_unstable();
        if let Some(double) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::Config {
                name: config.name.clone(),
                message: format!("method: two variants are both {}", double[0]),
                hint: "leave one of them out, or let them differ in an option".into(),
            });
        }
        Ok(plan)
    }

    /// The precision of a name, none for f32. What `auto` is depends on machine and models, so that the plan names what
    /// it was.
    fn multiplied_in(&self, name: Option<&str>, dtype: Dtype) -> Result<Option<String>> {
        let screens =
            self.variants.iter().filter_map(|variant| variant.options.get("screen")?.as_str());
        let specs = self.rewards.iter().map(|reward| &*reward.spec).chain(screens);
        // One that cannot be read is refused where it is asked for.
        let specs = specs.filter_map(|spec| spec.parse::<Spec>().ok());
        let checkpoints: Vec<String> = specs.flat_map(|spec| spec.checkpoints()).collect();
        let networks = checkpoints.iter().map(String::as_str).chain([&*self.model]);
        let precision = treasure::precision(name, &[dtype], networks)?;
        Ok((precision != Precision::F32).then(|| precision.to_string()))
    }

    /// What a variant asks of the program, for one reward or for none.
    pub fn asked(&self, variant: &Variant, reward: Option<usize>) -> Result<treasure::Plan> {
        let reward = reward.map(|reward| &self.rewards[reward]);
        let preset = match self.protocol {
            Protocol::Own => variant.preset.unwrap_or(Preset::Paper),
            Protocol::Fk => Preset::Fk,
        };
        let mut request = json!({
            "model": self.model,
            "precision": self.precision,
            "reward": reward.map_or(NO_REWARD, |reward| reward.spec.as_str()),
            "length": self.length,
            "min_length": self.min_length,
            "seed": self.seed,
            "preset": preset,
            "method": variant.method,
        });
        if let Some(fields) = request.as_object_mut() {
            fields.extend(variant.settings(self.protocol, reward.map(|reward| &*reward.name)));
        }
        let planned =
            Request::from_value(request).and_then(|request| treasure::Plan::new(&request));
        planned.map_err(|cause| Error::Method { name: variant.name.clone(), cause })
    }

    /// The command that runs a preset's plan, with everything a user can change spelled out.
    pub fn command(&self) -> String {
        let config = Config::load(&self.name).ok();
        let usual = config.as_ref().and_then(|config| Some(&config.size.get(&self.size)?.ppl));
        let ppl = match usual {
            Some(usual) if *usual != self.ppl => format!(" --ppl {}", self.ppl),
            _ => String::new(),
        };
        format!(
            "treasure eval run {} --size {} --model {} --prompts {} --continuations {} --seed {}{ppl}",
            self.name,
            self.size.name(),
            self.model,
            self.prompts.len(),
            self.continuations,
            self.seed
        )
    }

    /// SHA-256 over the whole plan.
    pub fn hash(&self) -> String {
        let text = serde_json::to_string(self).expect("a plan has only string keys");
        hex(&Sha256::digest(text.as_bytes()))
    }
}

impl From<&RewardConfig> for PlannedReward {
    fn from(reward: &RewardConfig) -> Self {
        Self {
            name: reward.name.clone(),
            spec: reward.spec.clone(),
            accuracy: reward.accuracy.clone(),
            heldout: reward.heldout.clone(),
            heldout_accuracy: reward.heldout_accuracy.clone(),
        }
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}
