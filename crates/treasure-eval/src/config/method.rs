//! `[[method]]`: a method with the settings to try, any of its options among them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use treasure::{Method, Preset, nearest};

use super::{BySize, Size};

/// One setting, or several to try.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Many<T> {
    /// One.
    One(T),
    /// One variant for each.
    Each(Vec<T>),
}

impl<T> Many<T> {
    /// All of them.
    pub fn list(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Each(each) => each,
        }
    }
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
    /// The nominal number of model calls, 1 + (n − 1) m.
    Nfe,
    /// Wall clock, calibrated once.
    Seconds,
}

impl Budget {
    /// What it is called in ids and in names of rows.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::RewardCalls => ("calls", "same reward calls"),
            Self::Nfe => ("nfe", "same NFE"),
            Self::Seconds => ("seconds", "same seconds"),
        }
    }
}

/// A method with the settings to try.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct MethodConfig {
    /// The name in tables.
    pub name: String,
    /// Any method of the program.
    pub method: String,
    /// `paper` (the default) or `plain`, the program's own defaults.
    pub preset: Option<Preset>,
    /// Pairs (b, m), one variant each.
    pub widths: Option<Vec<(usize, usize)>>,
    /// Numbers of particles.
    pub particles: Option<Many<usize>>,
    /// As wide (particles, iterations, tree width) as costs what TReASURe at `matched` costs.
    pub width: Option<Many<Budget>>,
    /// The pair (b, m) whose cost a matched control has.
    pub matched: Option<(usize, usize)>,
    /// Numbers of unmasking groups.
    pub groups: Option<Many<usize>>,
    /// `ancestral` or `first-hitting`.
    pub sampler: Option<String>,
    /// How nodes are valued.
    pub value: Option<String>,
    /// How nodes are kept.
    pub select: Option<String>,
    /// Completions per particle in FK, or per parent in previous-step scoring.
    pub x0_samples: Option<usize>,
    /// FK's λ.
    pub lambda: Option<f64>,
    /// FK's potential.
    pub potential: Option<String>,
    /// FK resamples every so many steps.
    pub resample_every: Option<usize>,
    /// Steps of the sampler, where they differ from the size's.
    pub steps: Option<Many<Steps>>,
    /// At most this many prompts.
    pub prompts: Option<BySize>,
    /// Another number of continuations than the others.
    pub continuations: Option<BySize>,
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
    /// Any other option of the method by its name; a list makes one variant of each.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

/// The keys above, for guesses at what was meant.
const METHOD_KEYS: &str = "name method preset widths particles width matched groups sampler value select \
    x0_samples lambda potential resample_every steps prompts continuations sizes shared trace calibrated";

/// What a request may say that is no option of a method, but differs between methods.
const REQUEST_KEYS: [&str; 6] =
    ["answer", "screen", "max_nfe", "max_reward_calls", "max_seconds", "target_reward"];

impl MethodConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.preset == Some(Preset::Fk) {
            return Err(
                "preset: expected paper or plain; protocol = \"fk\" stands at the top".into()
            );
        }
        if self.width.is_some() != self.matched.is_some() {
            return Err("width: a word such as \"nfe\" and matched = [b, m] go together".into());
        }
        let option = Method::width_option(&self.method);
        if self.width.is_some()
            && (option.is_none() || option == self.particles.as_ref().map(|_| "particles"))
        {
            return Err(format!(
                "width: {} has no number left that a budget could set",
                self.method
            ));
        }
        if self.shared && self.method != "bon" {
            return Err("shared: only the candidates of bon can be shared".into());
        }
        for key in self.options.keys() {
            if REQUEST_KEYS.contains(&key.as_str()) || !Method::with_option(key).is_empty() {
                continue;
            }
            if treasure::is_field(key) {
                return Err(format!("{key}: belongs to the experiment, not to a method"));
            }
            let options: Vec<String> = (Method::NAMES.iter())
                .filter_map(|name| Method::named(name))
                .flat_map(|method| method.options().into_iter().map(|(key, _)| key))
                .collect();
            let known = METHOD_KEYS.split_whitespace().chain(REQUEST_KEYS);
            let near = nearest(key, known.chain(options.iter().map(String::as_str)));
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(format!("{key}: there is no such setting{near}"));
        }
        let widths = self.widths.iter().flatten().flat_map(|&(b, m)| [b, m]);
        let counts = self.particles.as_ref().map_or(&[1][..], Many::list);
        let steps = self.steps.as_ref().map_or(&[][..], Many::list).iter().map(|steps| steps.at(1));
        let groups = self.groups.as_ref().map_or(&[][..], Many::list).iter().copied();
        if widths.chain(counts.iter().copied()).chain(groups).chain(steps).any(|number| number == 0)
        {
            return Err("widths, particles, groups and steps: expected at least 1, got 0".into());
        }
        let lists = [
            self.widths.as_ref().is_some_and(Vec::is_empty),
            counts.is_empty(),
            self.width.as_ref().is_some_and(|budgets| budgets.list().is_empty()),
            self.groups.as_ref().is_some_and(|groups| groups.list().is_empty()),
            self.steps.as_ref().is_some_and(|steps| steps.list().is_empty()),
            self.options.values().any(|value| value.as_array().is_some_and(Vec::is_empty)),
        ];
        match lists.contains(&true) {
            true => Err("expected at least one value in each list, got an empty list".into()),
            false => Ok(()),
        }
    }
}
