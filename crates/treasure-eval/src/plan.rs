//! Config → plan: every variant, prompt and reward spelled out, and the ordered list of cells.
//!
//! Guarantee: the cells, their names and their keys are functions of the plan alone. A key depends on
//! seed, prompt and continuation but not on method or reward, so that methods are compared on common
//! randomness and any sharding gives the same bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use treasure_core::Key;

use crate::{
    Error, Result,
    config::{
        Budget, Config, Kind, MethodConfig, Particles, Protocol, RewardConfig, Size, Steps, applies,
    },
    presets,
};

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

/// A method with one choice of every setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The name in cell ids, such as `treasure-b5-m2`.
    pub id: String,
    /// The name in tables.
    pub name: String,
    /// The method.
    pub method: String,
    /// b.
    pub beam_width: Option<usize>,
    /// m.
    pub tree_width: Option<usize>,
    /// N of bon, fk, svdd and code.
    pub particles: Option<usize>,
    /// N by reward, where a wall-clock match makes it differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub particles_by_reward: BTreeMap<String, usize>,
    /// What N was matched to, with the (b, m) it was matched at.
    pub matched: Option<(Budget, usize, usize)>,
    /// Unmasking groups.
    pub groups: usize,
    /// What bon and fk run on.
    pub sampler: Option<String>,
    /// How nodes are valued.
    pub value: Option<String>,
    /// How nodes are kept.
    pub select: Option<String>,
    /// Sampled completions.
    pub x0_samples: Option<usize>,
    /// FK's λ.
    pub lambda: Option<f64>,
    /// FK's potential.
    pub potential: Option<String>,
    /// FK's interval.
    pub resample_every: Option<usize>,
    /// Steps of the ancestral sampler.
    pub steps: usize,
    /// How many prompts it runs on.
    pub prompts: usize,
    /// One set of candidates for every reward.
    pub shared: bool,
    /// Whether the first cells keep a trace.
    pub trace: bool,
}

impl Variant {
    /// Whether one cell serves every reward.
    pub fn serves_all_rewards(&self) -> bool {
        self.shared || matches!(self.method.as_str(), "base" | "fhs" | "greedy")
    }

    /// The per-step width the paper calls NFE: m of a tree, N of a population, else 1.
    pub fn width(&self) -> usize {
        self.tree_width.or(self.particles).unwrap_or(1)
    }

    /// Nominal (model calls, reward calls) of one sample with `n` masks, before any saving.
    pub fn nominal_cost(&self, n: usize) -> (usize, usize) {
        let k = self.particles.or_else(|| self.particles_by_reward.values().copied().max());
        let k = k.unwrap_or(1);
        let first_hitting = self.sampler.as_deref() == Some("first-hitting");
        let steps = if first_hitting { n } else { self.steps.min(n) };
        match self.method.as_str() {
            "treasure" | "naive-tree" => {
                let (b, m) =
                    (self.beam_width.unwrap_or(1) * self.groups, self.tree_width.unwrap_or(1));
                let (model, reward) =
                    (1 + n.saturating_sub(1) * m, b + n.saturating_sub(1) * b * m);
                match self.value.as_deref() {
                    Some("posterior") => (model + reward, reward),
                    Some("previous") => (model, reward * self.x0_samples.unwrap_or(1)),
                    _ => (model, reward),
                }
            }
            "fk" => (k * steps, k * 51 * self.x0_samples.unwrap_or(4)),
            "svdd" | "code" => (k * steps, k * steps),
            "bon" => (k * steps, k),
            _ => (n, 0),
        }
    }
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
    /// The scorer of generative perplexity.
    pub ppl: String,
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
}

/// One unit of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its place in the plan's order.
    pub index: usize,
    /// `VARIANT/REWARD/pNN/cNN`; the reward is `all` where one cell serves all.
    pub id: String,
    /// Which variant.
    pub variant: usize,
    /// Which reward; none where one cell serves all.
    pub reward: Option<usize>,
    /// Which prompt.
    pub prompt: usize,
    /// Which continuation.
    pub continuation: usize,
}

impl Plan {
    /// The plan of a config at a size.
    pub fn new(config: &Config, size: Size, overrides: &Overrides) -> Result<Self> {
        let settings = config.size.get(&size).ok_or_else(|| Error::Config {
            name: config.name.clone(),
            message: format!("size: expected [size.{}], got none", size.name()),
        })?;
        let all = presets::prompts();
        let wanted = overrides.prompts.unwrap_or(settings.prompts);
        if wanted == 0 || wanted > all.len() {
            return Err(Error::Invalid {
                what: "prompts".into(),
                expected: format!("1 to {}", all.len()),
                got: wanted.to_string(),
            });
        }
        let continuations = overrides.continuations.unwrap_or(settings.continuations);
        if continuations == 0 {
            return Err(Error::Invalid {
                what: "--continuations".into(),
                expected: "at least 1".into(),
                got: "0".into(),
            });
        }
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
            ppl: settings.ppl.clone(),
            length: settings.length,
            min_length: settings.min_length,
            continuations,
            completions: settings.completions,
            every: settings.every,
            traces: settings.traces,
            prompts: all.into_iter().take(wanted).map(strip).collect(),
            rewards,
            variants: Vec::new(),
        };
        for method in config.method.iter().filter(|method| applies(&method.sizes, size)) {
            plan.expand(method, settings.steps);
        }
        let mut ids: Vec<_> = plan.variants.iter().map(|variant| &variant.id).collect();
        ids.sort_unstable();
        if let Some(double) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::Config {
                name: config.name.clone(),
                message: format!("method: two variants are both {}", double[0]),
            });
        }
        Ok(plan)
    }

    fn expand(&mut self, method: &MethodConfig, steps: usize) {
        let widths: Vec<_> = match &method.widths {
            Some(widths) => widths.iter().map(|&pair| Some(pair)).collect(),
            None => vec![None],
        };
        let particles: Vec<_> = match &method.particles {
            Some(Particles::Counts(counts)) => counts.iter().map(|&count| Some(count)).collect(),
            _ => vec![None],
        };
        let limit = method.prompts.as_ref().and_then(|by| by.at(self.size));
        let prompts = limit.unwrap_or(self.prompts.len()).min(self.prompts.len());
        for &width in &widths {
            for &count in &particles {
                for &groups in method.groups.as_deref().unwrap_or(&[1]) {
                    for &steps in method.steps.as_deref().unwrap_or(&[Steps::Number(steps)]) {
                        let steps = steps.at(self.length);
                        let matched = match (&method.particles, method.matched) {
                            (Some(Particles::Matched(budget)), Some((b, m))) => {
                                Some((*budget, b, m))
                            }
                            _ => None,
                        };
                        let n = self.length;
                        let particles = match matched {
                            Some((Budget::RewardCalls, b, m)) => Some(b + (n - 1) * b * m),
                            _ => count,
                        };
                        let mut variant = Variant {
                            id: String::new(),
                            name: method.name.clone(),
                            method: method.method.clone(),
                            beam_width: width.map(|(b, _)| b),
                            tree_width: width.map(|(_, m)| m),
                            particles,
                            particles_by_reward: method.calibrated.clone(),
                            matched,
                            groups,
                            sampler: method.sampler.clone(),
                            value: method.value.clone(),
                            select: method.select.clone(),
                            x0_samples: method.x0_samples,
                            lambda: method.lambda,
                            potential: method.potential.clone(),
                            resample_every: method.resample_every,
                            steps,
                            prompts,
                            shared: method.shared,
                            trace: method.trace,
                        };
                        let several_steps =
                            method.steps.as_ref().is_some_and(|steps| steps.len() > 1);
                        variant.id = variant_id(&variant, several_steps);
                        self.variants.push(variant);
                    }
                }
            }
        }
    }

    /// The cells in their order: continuation by continuation and prompt by prompt, so that a run cut
    /// short still has every method on its first prompts.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for continuation in 0..self.continuations {
            for prompt in 0..self.prompts.len() {
                for (variant, settings) in self.variants.iter().enumerate() {
                    if prompt >= settings.prompts {
                        continue;
                    }
                    let one_for_all = match self.kind {
                        Kind::Search => settings.serves_all_rewards(),
                        Kind::Branching => true,
                        Kind::Variation => false,
                    };
                    let rewards: Vec<_> = match one_for_all || self.rewards.is_empty() {
                        true => vec![None],
                        false => (0..self.rewards.len()).map(Some).collect(),
                    };
                    for reward in rewards {
                        let name =
                            reward.map_or("all", |reward| self.rewards[reward].name.as_str());
                        cells.push(Cell {
                            index: cells.len(),
                            id: format!(
                                "{}/{name}/p{:02}/c{:02}",
                                settings.id,
                                prompt + 1,
                                continuation + 1
                            ),
                            variant,
                            reward,
                            prompt,
                            continuation,
                        });
                    }
                }
            }
        }
        cells
    }

    /// The key of a cell's sample.
    pub fn key(&self, cell: &Cell) -> Key {
        let prompt = Sha256::digest(self.prompts[cell.prompt].as_bytes());
        let mut head = [0; 8];
        head.copy_from_slice(&prompt[..8]);
        Key::new(self.seed).fold(u64::from_le_bytes(head)).fold(cell.continuation as u64)
    }

    /// Whether a cell keeps its trace.
    pub fn traced(&self, cell: &Cell) -> bool {
        self.variants[cell.variant].trace && cell.continuation == 0 && cell.prompt < self.traces
    }

    /// How much work a cell is, for time left and for even shards; reward calls weigh as much as model calls.
    pub fn weight(&self, cell: &Cell) -> f64 {
        let (model, reward) = self.variants[cell.variant].nominal_cost(self.length);
        match self.kind {
            Kind::Search => 1.0 + model as f64 + reward as f64,
            Kind::Branching => 1.0 + self.length as f64,
            Kind::Variation => 1.0 + (self.completions * self.length / self.every.max(1)) as f64,
        }
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

/// `METHOD[-SAMPLER][-VALUE][-SELECT][-bB-mM][-nN][-gK][-tT]`, leaving out what is the default.
fn variant_id(variant: &Variant, several_steps: bool) -> String {
    let mut id = variant.method.clone();
    let mut push = |part: String| {
        id.push('-');
        id.push_str(&part);
    };
    if variant.sampler.as_deref() == Some("first-hitting") {
        push("fh".into());
    }
    for (setting, default) in [(&variant.value, "resubstitute"), (&variant.select, "top")] {
        if let Some(setting) = setting.as_ref().filter(|setting| *setting != default) {
            push(setting.clone());
        }
    }
    if let (Some(b), Some(m)) = (variant.beam_width, variant.tree_width) {
        push(format!("b{b}-m{m}"));
    }
    match (variant.matched, variant.particles) {
        (Some((Budget::RewardCalls, ..)), _) => push("calls".into()),
        (Some((Budget::Seconds, ..)), _) => push("seconds".into()),
        (None, Some(n)) => push(format!("n{n}")),
        (None, None) => {}
    }
    if variant.groups != 1 {
        push(format!("g{}", variant.groups));
    }
    if several_steps {
        push(format!("t{}", variant.steps));
    }
    id
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, size: Size) -> Plan {
        Plan::new(&Config::load(name).unwrap(), size, &Overrides::default()).unwrap()
    }

    #[test]
    fn the_main_table_has_the_papers_methods_and_widths_on_four_rewards() {
        let plan = plan("main", Size::Pocket);
        let ids: Vec<_> = plan.variants.iter().map(|variant| variant.id.as_str()).collect();
        for id in [
            "base",
            "bon-n2",
            "bon-n4",
            "bon-n6",
            "bon-n8",
            "bon-n16",
            "fk-n2",
            "fk-n4",
            "fk-n6",
            "fk-n8",
            "fk-n16",
            "treasure-b5-m2",
            "treasure-b6-m4",
            "treasure-b8-m6",
            "treasure-b12-m8",
            "treasure-b20-m16",
        ] {
            assert!(ids.contains(&id), "{id} is not among {ids:?}");
        }
        assert_eq!(plan.rewards.len(), 4);
        assert_eq!((plan.length, plan.continuations, plan.prompts.len()), (48, 2, 15));
        let wide = plan.variants.iter().find(|variant| variant.id == "treasure-b20-m16").unwrap();
        assert_eq!(wide.prompts, 5);
    }

    #[test]
    fn the_papers_size_is_twenty_continuations_of_128_tokens_on_fifteen_prompts() {
        let plan = plan("main", Size::Paper);
        assert_eq!((plan.length, plan.continuations, plan.prompts.len()), (128, 20, 15));
    }

    #[test]
    fn cell_ids_are_unique_and_keys_depend_on_prompt_and_continuation_alone() {
        let plan = plan("main", Size::Quick);
        let cells = plan.cells();
        let mut ids: Vec<_> = cells.iter().map(|cell| cell.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), cells.len());
        for a in &cells {
            for b in &cells {
                let same = (a.prompt, a.continuation) == (b.prompt, b.continuation);
                assert_eq!(plan.key(a) == plan.key(b), same, "{} and {}", a.id, b.id);
            }
        }
    }

    #[test]
    fn nominal_costs_are_the_protocols() {
        let plan = plan("main", Size::Paper);
        let cost = |id: &str| plan.variants.iter().find(|v| v.id == id).unwrap().nominal_cost(123);
        assert_eq!(cost("treasure-b5-m2"), (245, 1225));
        assert_eq!(cost("treasure-b20-m16"), (1953, 39060));
        assert_eq!(cost("fk-n16").1, 3264);
    }

    #[test]
    fn the_matched_control_scores_as_many_candidates_as_the_search_makes_reward_calls() {
        let plan = plan("controls", Size::Pocket);
        let calls = plan.variants.iter().find(|variant| variant.id == "bon-fh-calls").unwrap();
        assert_eq!(calls.particles, Some(5 + 47 * 10));
        assert!(calls.serves_all_rewards());
    }

    #[test]
    fn any_change_changes_the_hash() {
        let a = plan("main", Size::Quick);
        let mut b = a.clone();
        assert_eq!(a.hash(), b.hash());
        b.variants[0].steps += 1;
        assert_ne!(a.hash(), b.hash());
    }
}
