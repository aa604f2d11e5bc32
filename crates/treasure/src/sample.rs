//! A finished text with all that is known of it: the row that every door hands out.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use treasure_core::NodeEvent;

/// The version of the row's fields; it changes when one changes its meaning or goes away.
pub const ROW_VERSION: u32 = 2;

/// The fields of a row that are ours; callers' own fields stand beside them.
pub const ROW_FIELDS: &[&str] = &[
    "version",
    "prompt",
    "text",
    "continuation",
    "tokens",
    "reward",
    "reward_final",
    "rewards",
    "logp",
    "method",
    "seed",
    "prompt_index",
    "sample",
    "stopped",
    "cut",
    "notes",
    "held_out",
    "before",
    "reward_before",
    "cost",
    "plan",
];

/// What a sample cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Sequences run through the denoiser (number of function evaluations).
    pub nfe: u64,
    /// Requests for a prediction that were answered without running it.
    pub nfe_hits: u64,
    /// Texts scored.
    pub reward_calls: u64,
    /// Requests for a score that were answered without scoring.
    pub reward_cache_hits: u64,
    /// Texts scored by the cheap reward of a screen.
    #[serde(default)]
    pub proxy_calls: u64,
    /// Scores that a bound on the reward made needless.
    #[serde(default)]
    pub reward_skips: u64,
    /// Its share of the wall-clock seconds: the seconds of samples that ran beside each other add up to
    /// the whole.
    pub seconds: f64,
}

impl Cost {
    /// The cost of a search in so many seconds.
    pub fn new(cost: treasure_core::Cost, seconds: f64) -> Self {
        let treasure_core::Cost {
            nfe,
            nfe_hits,
            reward_calls,
            reward_cache_hits,
            proxy_calls,
            reward_skips,
        } = cost;
        Self { nfe, nfe_hits, reward_calls, reward_cache_hits, proxy_calls, reward_skips, seconds }
    }
}

/// What did not take part in the search: the guard against gaming the reward.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Each judge as written, with its score.
    pub judges: Map<String, Value>,
    /// exp(mean NLL) of the text under a scorer, where one is at hand.
    pub perplexity: Option<f64>,
    /// Distinct n-grams of the continuation over all its n-grams, n = 1, 2, 3; `null` where it has none.
    pub dist: [Option<f64>; 3],
}

/// A finished sample. Field names and order are the contract of the JSON row.
///
/// ```
/// let session = treasure::Session::pocket()?;
/// let found = session.prompt("The old dog").reward("length:1..9").length(3).run()?;
/// assert_eq!(found.text, format!("{}{}", found.prompt, found.continuation));
/// assert!(found.reward <= 1.0 && found.cost.nfe > 0);
/// // A row is this, and reads as one again.
/// let row = serde_json::to_string(&found).unwrap();
/// assert_eq!(serde_json::from_str::<treasure::Sample>(&row).unwrap().text, found.text);
/// # Ok::<(), treasure::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The version of these fields.
    pub version: u32,
    /// The prompt, or a template's text before its first hole.
    pub prompt: String,
    /// `prompt` + `continuation`, byte for byte.
    pub text: String,
    /// What was generated.
    pub continuation: String,
    /// The generated ids up to the first end of text.
    pub tokens: Vec<u32>,
    /// The reward of `text`.
    pub reward: f64,
    /// The reward of the search's own choice at its end, where the answer is the best seen.
    pub reward_final: Option<f64>,
    /// Each part of the reward as written.
    pub rewards: Map<String, Value>,
    /// log p of the generated tokens, where the search knows it.
    #[serde(rename = "logp")]
    pub log_p: Option<f64>,
    /// The method.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// Which prompt of the run, from 0.
    pub prompt_index: u64,
    /// Which sample of the prompt, from 0.
    pub sample: u64,
    /// Why the search ended before its last mask, if it did.
    pub stopped: Option<String>,
    /// Whether the text was cut because the length ran out, and not ended by the model.
    pub cut: bool,
    /// Caps and other notices of the search.
    pub notes: Vec<String>,
    /// Held-out scores, if judges were named.
    pub held_out: Option<HeldOut>,
    /// The finished text that was refined; rows of other searches do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The reward of `before`; none if the search was stopped before it could be scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward_before: Option<f64>,
    /// What it cost.
    pub cost: Cost,
    /// Every option after defaults.
    pub plan: Value,
    /// Fields of the caller's own, carried through.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// Every node of the search, if the tree was asked for.
    #[serde(skip)]
    pub tree: Option<Vec<NodeEvent>>,
    /// The trace as JSON Lines, if one was asked for.
    #[serde(skip)]
    pub trace: Option<Vec<u8>>,
}

impl Sample {
    /// Whether the run was interrupted from outside, so that another run would give another text.
    pub fn is_interrupted(&self) -> bool {
        self.stopped.as_deref() == Some("interrupted")
    }
}
