//! One finished sample: the JSON row that programs lean on, and the lines people read.

use serde::Serialize;
use serde_json::Value;

use crate::output::number;

/// What a sample cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CostRow {
    /// Sequences run through the denoiser.
    pub nfe: u64,
    /// Requests for a prediction that were answered without running it.
    pub nfe_hits: u64,
    /// Texts scored.
    pub reward_calls: u64,
    /// Requests for a score that were answered without scoring.
    pub reward_cache_hits: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl CostRow {
    /// The line for people.
    pub fn line(&self) -> String {
        let mut line = format!("nfe {}", number::count(self.nfe));
        if self.nfe_hits > 0 {
            line += &format!(" (+{} cached)", number::count(self.nfe_hits));
        }
        line += &format!("   reward calls {}", number::count(self.reward_calls));
        if self.reward_cache_hits > 0 {
            line += &format!(" (+{} cached)", number::count(self.reward_cache_hits));
        }
        line + &format!("   {}", number::seconds(self.seconds))
    }
}

/// What did not take part in the search: the guard against gaming the reward.
#[derive(Clone, Debug, Serialize)]
pub struct HeldOut {
    /// Each `--judge` as written, with its score.
    pub judges: serde_json::Map<String, Value>,
    /// exp(mean NLL) of the text under a scorer, where one is at hand.
    pub perplexity: Option<f64>,
    /// Distinct n-grams of the continuation over all its n-grams, n = 1, 2, 3; `null` where it has none.
    pub dist: [Option<f64>; 3],
}

impl HeldOut {
    /// The line for people.
    pub fn line(&self) -> String {
        let mut line = format!("  held out {}", scores(&self.judges));
        if let Some(perplexity) = self.perplexity {
            line += &format!("   perplexity {perplexity:.1}");
        }
        for (n, dist) in self.dist.iter().enumerate() {
            if let Some(dist) = dist {
                line += &format!("   dist-{} {dist:.2}", n + 1);
            }
        }
        line
    }
}

/// A finished sample. Field names and order are the contract of the JSON row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The prompt, or a template's text before its first hole.
    pub prompt: String,
    /// `prompt` + `continuation`, byte for byte.
    pub text: String,
    /// What was generated.
    pub continuation: String,
    /// The generated ids up to the first EOS.
    pub tokens: Vec<u32>,
    /// The reward of `text`.
    pub reward: f64,
    /// Each part of the reward as written.
    pub rewards: serde_json::Map<String, Value>,
    /// The method.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// Which prompt of the run, from 0.
    pub prompt_index: u64,
    /// Which sample of the prompt, from 0.
    pub sample: u64,
    /// Why the search ended before its last mask, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Held-out scores, with `--judge`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
    /// What it cost.
    pub cost: CostRow,
    /// Every option after defaults.
    pub plan: Value,
}

/// How a reward reads best beside its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A log-probability: `p = 0.98`.
    LogProbability,
    /// Minus the mean NLL: `perplexity 8.4`.
    MeanLogLikelihood,
    /// The number alone.
    Plain,
}

impl Reading {
    /// The remark in parentheses, with a leading space.
    pub fn remark(self, reward: f64) -> String {
        match self {
            Self::LogProbability => format!(" (p = {})", number::probability(reward.exp())),
            Self::MeanLogLikelihood => format!(" (perplexity {:.1})", (-reward).exp()),
            Self::Plain => String::new(),
        }
    }
}

impl Row {
    /// The lines for people: the text, what it is worth, what it cost.
    pub fn lines(&self, reading: Reading, several_samples: bool) -> String {
        let mut out = format!("{}\n", self.text);
        out += &format!("  reward {}{}", number::reward(self.reward), reading.remark(self.reward));
        out += &format!("   {}   seed {}", self.cost.line(), self.seed);
        if several_samples {
            out += &format!("   sample {}", self.sample);
        }
        if self.rewards.len() > 1 {
            out += &format!("\n  parts {}", scores(&self.rewards));
        }
        if let Some(held_out) = &self.held_out {
            out += &format!("\n{}", held_out.line());
        }
        if let Some(reason) = &self.stopped {
            out += &format!("\n  stopped early: {reason}");
        }
        out
    }
}

/// Named scores on one line.
pub fn scores(scores: &serde_json::Map<String, Value>) -> String {
    let show = |value: &Value| value.as_f64().map_or_else(|| value.to_string(), number::reward);
    let parts: Vec<_> =
        scores.iter().map(|(name, value)| format!("{name} {}", show(value))).collect();
    parts.join("   ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_line_names_what_was_cached() {
        let cost = CostRow {
            nfe: 509,
            nfe_hits: 0,
            reward_calls: 1733,
            reward_cache_hits: 812,
            seconds: 12.4,
        };
        assert_eq!(cost.line(), "nfe 509   reward calls 1,733 (+812 cached)   12.4 s");
    }
}
