//! What a search hands back.

use serde::{Deserialize, Serialize};

use crate::{Cost, NodeEvent, StopReason, TokenId};

/// A complete sequence with its exact reward.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The tokens.
    pub tokens: Vec<TokenId>,
    /// The reward of exactly these tokens.
    pub reward: f64,
    /// What it is compared by: the reward and what the tree's taste adds to it for a whole text.
    pub value: f64,
    /// log p of all its generated tokens, where a prediction was looked at for that.
    pub log_p: Option<f64>,
}

/// A member of the last population.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Particle {
    /// The tokens.
    pub tokens: Vec<TokenId>,
    /// The value the method gave it: the exact reward with a tree's taste, except under the FK
    /// reference variant.
    pub value: f64,
    /// The reward alone.
    pub reward: f64,
    /// log p of its committed tokens, where they were ranked and not drawn.
    pub log_p: f64,
    /// Its unnormalised log-weight; 0 except under Feynman–Kac steering.
    pub log_weight: f64,
}

impl Particle {
    /// A text that was drawn, with its reward.
    pub(crate) fn scored(tokens: Vec<TokenId>, reward: f64) -> Self {
        Self { tokens, value: reward, reward, log_p: 0.0, log_weight: 0.0 }
    }
}

/// Something the caller should know: a cap, a fallback, an extra call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The option or rule concerned; each is noted once a run.
    pub what: String,
    /// What was done, with the values.
    pub message: String,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The answer: as the problem asks for it, or the best complete sequence seen if the search was
    /// stopped.
    pub tokens: Vec<TokenId>,
    /// Its exact reward; `None` only if the search was stopped before it could be scored.
    pub reward: Option<f64>,
    /// The reward of the method's own choice at its end, whatever was answered.
    pub reward_final: Option<f64>,
    /// log p of the answer's tokens, where it is known.
    pub log_p: Option<f64>,
    /// What it cost.
    pub cost: Cost,
    /// Why the search ended early; `None` if it ran to its end.
    pub stopped: Option<StopReason>,
    /// Steps completed.
    pub steps: usize,
    /// The best complete sequence scored at any time, which may beat `tokens`.
    pub best_seen: Option<Finished>,
    /// The last population, in slot order; empty if the search was stopped.
    pub finals: Vec<Particle>,
    /// The estimate of log E exp(λ r) under the model; Feynman–Kac steering only.
    pub log_normalizer: Option<f64>,
    /// The reward of the text that the problem was given, as given; refinement only.
    pub reward_before: Option<f64>,
    /// Caps and other notices.
    pub notes: Vec<Note>,
    /// Every node in the order it was told, if the run was asked to keep them.
    pub tree: Option<Vec<NodeEvent>>,
}
