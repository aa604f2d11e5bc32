//! A method of a config → one variant for each choice of its settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use treasure::{
    Method, Preset,
    methods::{Search, Treasure},
};

use super::{Plan, is_default};
use crate::{
    Result,
    config::{Budget, MethodConfig, Protocol, Steps},
};

/// How a tree values nodes unless a config says otherwise.
const DEFAULT_VALUE: &str = "resubstitute";
/// How a tree keeps nodes unless a config says otherwise.
const DEFAULT_SELECT: &str = "top";

/// A method with one choice of every setting. Names, order and values of the fields are part of every
/// fingerprint: what is new is left out where it is not used.
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
    /// N of a population, or how wide a method with a matched budget is.
    pub particles: Option<usize>,
    /// N by reward, where a wall-clock match makes it differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub particles_by_reward: BTreeMap<String, usize>,
    /// What N was matched to, with the (b, m) it was matched at.
    pub matched: Option<(Budget, usize, usize)>,
    /// Unmasking groups.
    pub groups: usize,
    /// What a population runs on.
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
    /// Its number of continuations, where that is its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub continuations: Option<usize>,
    /// Whose defaults hold; absent for the paper's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preset: Option<Preset>,
    /// Every other setting by its name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: Map<String, Value>,
    /// What a preset meant by reward when the plan was made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub meant: BTreeMap<String, Value>,
}

impl Variant {
    /// Whether two variants give the same texts: what they are called and where they run does not matter.
    pub fn same_work(&self, other: &Self) -> bool {
        let plain = |variant: &Self| Self {
            id: String::new(),
            name: String::new(),
            value: variant.value.clone().filter(|value| value != DEFAULT_VALUE),
            select: variant
                .select
                .clone()
                .filter(|select| select != DEFAULT_SELECT || variant.preset.is_some()),
            prompts: 0,
            continuations: None,
            trace: false,
            ..variant.clone()
        };
        plain(self) == plain(other)
    }

    /// Whether it is the paper's search.
    pub fn is_treasure(&self) -> bool {
        self.method == "treasure"
    }

    /// Its settings as a request names them; N may depend on the reward.
    pub(super) fn settings(&self, protocol: Protocol, reward: Option<&str>) -> Map<String, Value> {
        let by_reward = reward.and_then(|reward| self.particles_by_reward.get(reward)).copied();
        let words = [
            ("sampler", &self.sampler),
            ("value", &self.value),
            ("select", &self.select),
            ("potential", &self.potential),
        ];
        let numbers = [
            ("beam_width", self.beam_width),
            ("tree_width", self.tree_width),
            (self.width_option(), by_reward.or(self.particles)),
            ("groups", Some(self.groups).filter(|&groups| groups > 1)),
            ("x0_samples", self.x0_samples),
            ("resample_every", self.resample_every),
        ];
        let mut given = Map::new();
        let words = words.into_iter().filter_map(|(key, word)| Some((key, word.clone()?.into())));
        let numbers = numbers.into_iter().filter_map(|(key, number)| Some((key, number?.into())));
        let lambda = self.lambda.map(|lambda| ("lambda", lambda.into()));
        given.extend(words.chain(numbers).chain(lambda).map(|(key, value)| (key.into(), value)));
        if protocol == Protocol::Fk && self.method == "fk" {
            // That variant is defined on one sampler.
            given.remove("sampler");
        } else if self.takes_steps(&given) {
            given.insert("steps".into(), self.steps.into());
        }
        given.extend(self.options.clone());
        given
    }

    /// The option that N is.
    fn width_option(&self) -> &'static str {
        let matched = self.matched.and_then(|_| Method::width_option(&self.method));
        matched.unwrap_or("particles")
    }

    /// Whether the method takes ancestral steps under the sampler that was given. The steps of a tree and of the
    /// samplers of LLaDA and Dream are another thing: how many tokens a step reveals.
    fn takes_steps(&self, given: &Map<String, Value>) -> bool {
        if matches!(self.method.as_str(), "treasure" | "llada" | "dream") {
            return false;
        }
        let sampler = given.get("sampler").map(|sampler| ("sampler".to_owned(), sampler.clone()));
        Method::from_options(&self.method, &Map::new(), &sampler.into_iter().collect())
            .is_ok_and(|method| method.options().contains_key("steps"))
    }
}

/// Every combination of a method's settings, as a plan without its variants asks for them.
pub(super) fn expand(plan: &Plan, method: &MethodConfig, steps: usize) -> Result<Vec<Variant>> {
    let here = |by: &Option<crate::config::BySize>| by.as_ref().and_then(|by| by.at(plan.size));
    let first = Variant {
        name: method.name.clone(),
        method: method.method.clone(),
        particles_by_reward: method.calibrated.clone(),
        groups: 1,
        sampler: method.sampler.clone(),
        value: method.value.clone(),
        select: method.select.clone(),
        x0_samples: method.x0_samples,
        lambda: method.lambda,
        potential: method.potential.clone(),
        resample_every: method.resample_every,
        steps,
        prompts: here(&method.prompts).unwrap_or(plan.prompts.len()).min(plan.prompts.len()),
        shared: method.shared,
        trace: method.trace,
        continuations: here(&method.continuations).filter(|&count| count != plan.continuations),
        preset: method.preset.filter(|&preset| preset != Preset::Paper),
        ..Variant::default()
    };
    let mut all = vec![first];
    fn each<T: Clone>(all: &mut Vec<Variant>, choices: &[T], set: impl Fn(&mut Variant, T)) {
        let chosen = all.iter().flat_map(|variant| {
            choices.iter().map(|choice| {
                let mut variant = variant.clone();
                set(&mut variant, choice.clone());
                variant
            })
        });
        *all = chosen.collect();
    }
    if let Some(widths) = &method.widths {
        each(&mut all, widths, |variant, (b, m)| {
            (variant.beam_width, variant.tree_width) = (Some(b), Some(m));
        });
    }
    if let Some(counts) = &method.particles {
        each(&mut all, counts.list(), |variant, count| match method.width {
            // The budget sets something else.
            Some(_) => _ = variant.options.insert("particles".into(), count.into()),
            None => variant.particles = Some(count),
        });
    }
    if let (Some(budgets), Some((b, m))) = (&method.width, method.matched) {
        let several = budgets.list().len() > 1;
        each(&mut all, budgets.list(), |variant, budget| {
            variant.matched = Some((budget, b, m));
            if several {
                variant.name += &format!(", {}", budget.words().1);
            }
        });
    }
    if let Some(groups) = &method.groups {
        each(&mut all, groups.list(), |variant, groups| variant.groups = groups);
    }
    if let Some(steps) = &method.steps {
        let at = |variant: &mut Variant, steps: Steps| variant.steps = steps.at(plan.length);
        each(&mut all, steps.list(), at);
    }
    for (key, value) in &method.options {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        each(&mut all, values, |variant, value| _ = variant.options.insert(key.clone(), value));
    }
    let several_steps = method.steps.as_ref().is_some_and(|steps| steps.list().len() > 1);
    for variant in &mut all {
        if let Some((budget, b, m)) = variant.matched {
            variant.particles = matched(plan, variant, budget, &Treasure::new(b, m))?;
        }
        variant.id = variant_id(variant, several_steps);
        for reward in (0..plan.rewards.len()).map(Some).chain([None]) {
            let asked = plan.asked(variant, reward)?;
            if let (Some(_), Some(reward)) = (variant.preset, reward) {
                let mut meant = asked.options();
                // A later option that is off: plans on record keep their hashes.
                meant.retain(|name, value| name != "widen" || value.as_u64() != Some(0));
                meant.insert("answer".into(), asked.answer.name().into());
                variant.meant.insert(plan.rewards[reward].name.clone(), meant.into());
            }
        }
    }
    Ok(all)
}

/// The number of particles that costs what a tree costs; none where it has to be measured.
fn matched(
    plan: &Plan,
    variant: &Variant,
    budget: Budget,
    tree: &Treasure,
) -> Result<Option<usize>> {
    if budget == Budget::Seconds {
        return Ok(None);
    }
    let cost = |search: &dyn Search| {
        let nominal = search.nominal_cost(plan.length);
        (if budget == Budget::Nfe { nominal.nfe } else { nominal.reward_calls }) as f64
    };
    let at = |width: usize| -> Result<f64> {
        let asked = plan.asked(&Variant { particles: Some(width), ..variant.clone() }, None)?;
        Ok(cost(asked.method.search()))
    };
    // Some of the cost may not depend on the width.
    let (one, more) = (at(1)?, at(2)? - at(1)?);
    let wider = ((cost(tree) - one) / more.max(1.0)).round().max(0.0);
    Ok(Some(1 + wider as usize))
}

/// `METHOD[-SAMPLER][-VALUE][-SELECT][-bB-mM][-nN][-gK][-tT][-PRESET][-KEY=VALUE…]`, leaving out what is
/// the default.
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
        // The program's own presets have defaults of their own.
        let said = |setting: &&String| *setting != default || variant.preset.is_some();
        if let Some(setting) = setting.as_ref().filter(said) {
            push(setting.clone());
        }
    }
    if let (Some(b), Some(m)) = (variant.beam_width, variant.tree_width) {
        push(format!("b{b}-m{m}"));
    }
    match (variant.matched, variant.particles) {
        (Some((budget, ..)), _) => push(budget.words().0.into()),
        (None, Some(n)) => push(format!("n{n}")),
        (None, None) => {}
    }
    if variant.groups != 1 {
        push(format!("g{}", variant.groups));
    }
    if several_steps {
        push(format!("t{}", variant.steps));
    }
    if let Some(preset) = variant.preset {
        push(preset.name().into());
    }
    for (key, value) in &variant.options {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        push(format!("{key}={value}"));
    }
    // Ids become file names and parts of cell ids.
    let plain = |c: char| c.is_alphanumeric() || "-_=.".contains(c);
    id.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}
