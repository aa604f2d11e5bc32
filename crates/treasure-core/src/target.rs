//! Targets of alignment: the tilted distribution p·exp(λ r)/Z and the soft value of Section 2.2.
//! λ multiplies the reward; the paper's λ is its inverse.

use crate::{Error, Result, resample::LogWeights};

/// The tilted distribution over given outcomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// p·exp(λ r)/Z, one per outcome. Eq. (5).
    pub probs: Vec<f64>,
    /// log Z = log Σ p·exp(λ r).
    pub log_normalizer: f64,
}

/// The target of Eq. (5) over outcomes with given log-probabilities and rewards.
pub fn target(lambda: f64, logprobs: &[f64], rewards: &[f64]) -> Result<Target> {
    if logprobs.len() != rewards.len() {
        return Err(Error::Invalid {
            what: "rewards",
            expected: format!("{} (one per outcome)", logprobs.len()),
            got: rewards.len().to_string(),
        });
    }
    let tilted: Vec<f64> =
        logprobs.iter().zip(rewards).map(|(logprob, reward)| logprob + lambda * reward).collect();
    let weights = LogWeights::new("target p·exp(λ r)", &tilted)?;
    Ok(Target { probs: weights.normalised().to_vec(), log_normalizer: weights.log_sum() })
}

/// The soft value (1/λ) log E exp(λ r) of Eq. (6), over outcomes with given log-probabilities.
pub fn soft_value(lambda: f64, logprobs: &[f64], rewards: &[f64]) -> Result<f64> {
    crate::options::positive("lambda", lambda)?;
    let total = LogWeights::new("probabilities", logprobs)?.log_sum();
    Ok((target(lambda, logprobs, rewards)?.log_normalizer - total) / lambda)
}
