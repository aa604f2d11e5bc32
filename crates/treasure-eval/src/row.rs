//! One finished cell of an experiment: what a line of the run store holds.
//!
//! Guarantee: everything but `timing` is a function of the plan, so that two runs of one plan differ
//! in that field alone. [`Row::canonical`] is the row without it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use treasure::core::Cost;

/// One text and all that the judges say of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The reward the search optimised; none where the method uses no reward, so that the text
    /// counts for every reward.
    pub reward: Option<String>,
    /// How many candidates this reward chose among, where that differs from the variant's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub particles: Option<usize>,
    /// The generated text without the prompt, up to the first end-of-text.
    pub continuation: String,
    /// Its token ids.
    pub tokens: Vec<u32>,
    /// The optimised reward of the text as the search saw it.
    pub value: Option<f64>,
    /// Every judge's number, by name: `NAME`, `NAME/accuracy`, `NAME/heldout`, `NAME/heldout-accuracy`, `ppl`.
    pub scores: BTreeMap<String, f64>,
    /// What it cost.
    pub cost: Cost,
    /// Best value in the beam after each step, with the masks left: (masks, value).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trajectory: Vec<(usize, f64)>,
}

/// How often each number of distinct children came up when `beam_width` children were drawn in parallel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branching {
    /// Children drawn per state.
    pub beam_width: usize,
    /// Steps of the parallel sampler.
    pub steps: usize,
    /// Entry i counts the states with i + 1 distinct children.
    pub distinct: Vec<u64>,
}

/// The spread of the reward over sampled completions of one state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Masks left in the state.
    pub masks: usize,
    /// The lowest reward.
    pub min: f64,
    /// The lower quartile.
    pub q1: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub q3: f64,
    /// The highest reward.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

/// Wall-clock time of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Seconds of search, one number per sample.
    pub search: Vec<f64>,
    /// Seconds spent on the judges afterwards.
    pub judging: f64,
}

/// A finished cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The cell: `VARIANT/REWARD/pNN/cNN`.
    pub id: String,
    /// The fingerprint of the run it belongs to.
    pub plan: String,
    /// The variant of the method.
    pub variant: String,
    /// The prompt's place in the plan.
    pub prompt: usize,
    /// Which continuation of the prompt.
    pub continuation: usize,
    /// The texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Effective branch counts, in the preset that measures them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branching: Vec<Branching>,
    /// Reward variation, in the preset that measures it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variation: Vec<Spread>,
    /// Seconds; the only part that differs between two runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
}

impl Row {
    /// The row without its timing.
    #[must_use]
    pub fn canonical(&self) -> Self {
        Self { timing: None, ..self.clone() }
    }

    /// Seconds of search of a sample; 0 when the row carries no timing.
    pub fn seconds(&self, sample: usize) -> f64 {
        self.timing.as_ref().and_then(|timing| timing.search.get(sample)).copied().unwrap_or(0.0)
    }
}
