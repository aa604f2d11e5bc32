//! A method of a config → one variant for each choice of its settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::config::{Budget, MethodConfig, Particles, Steps};

/// How a tree values nodes unless a config says otherwise.
const DEFAULT_VALUE: &str = "resubstitute";
/// How a tree keeps nodes unless a config says otherwise.
const DEFAULT_SELECT: &str = "top";

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

    /// Whether two variants give the same texts: what they are called and where they run does not matter.
    pub fn same_work(&self, other: &Self) -> bool {
        let plain = |variant: &Self| Self {
            id: String::new(),
            name: String::new(),
            value: variant.value.clone().filter(|value| value != DEFAULT_VALUE),
            select: variant.select.clone().filter(|select| select != DEFAULT_SELECT),
            prompts: 0,
            trace: false,
            ..variant.clone()
        };
        plain(self) == plain(other)
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

/// Every combination of a method's settings, as a plan without its variants asks for them.
pub(super) fn expand(plan: &Plan, method: &MethodConfig, steps: usize) -> Vec<Variant> {
    let mut out = Vec::new();
    let widths: Vec<_> = match &method.widths {
        Some(widths) => widths.iter().map(|&pair| Some(pair)).collect(),
        None => vec![None],
    };
    let particles: Vec<_> = match &method.particles {
        Some(Particles::Counts(counts)) => counts.iter().map(|&count| Some(count)).collect(),
        _ => vec![None],
    };
    let limit = method.prompts.as_ref().and_then(|by| by.at(plan.size));
    let prompts = limit.unwrap_or(plan.prompts.len()).min(plan.prompts.len());
    for &width in &widths {
        for &count in &particles {
            for &groups in method.groups.as_deref().unwrap_or(&[1]) {
                for &steps in method.steps.as_deref().unwrap_or(&[Steps::Number(steps)]) {
                    let steps = steps.at(plan.length);
                    let matched = match (&method.particles, method.matched) {
                        (Some(Particles::Matched(budget)), Some((b, m))) => Some((*budget, b, m)),
                        _ => None,
                    };
                    let n = plan.length;
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
                    let several_steps = method.steps.as_ref().is_some_and(|steps| steps.len() > 1);
                    variant.id = variant_id(&variant, several_steps);
                    out.push(variant);
                }
            }
        }
    }
    out
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
    for (setting, default) in [(&variant.value, DEFAULT_VALUE), (&variant.select, DEFAULT_SELECT)] {
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
