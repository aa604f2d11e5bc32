//! The held-out check: what a judge that the search did not optimise says about its results.

use std::sync::Arc;

use crate::{Breakdown, Composite, Result, TextReward, metrics};

/// A judge with the usual guards against gaming a reward: perplexity and diversity.
#[derive(Clone)]
pub struct HeldOut {
    reward: Arc<Composite>,
    fluency: Option<Arc<dyn TextReward>>,
}

/// What a held-out judge says about some texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The judge's reward of each text, with its parts.
    pub rewards: Vec<Breakdown>,
    /// The perplexity of each text, exp(mean NLL), if a scorer was given.
    pub perplexities: Option<Vec<f64>>,
    /// Dist-1, -2 and -3 of the continuations together, in the usual definition; `None` where there is no n-gram.
    pub dist: [Option<f64>; 3],
    /// The same by the reference script's definition.
    pub dist_reference: [Option<f64>; 3],
}

impl HeldOut {
    /// A judge; `fluency` gives −mean NLL in nats per token, as `perplexity` and `ppl:` do.
    pub fn new(reward: Arc<Composite>, fluency: Option<Arc<dyn TextReward>>) -> Self {
        Self { reward, fluency }
    }

    /// Judges whole texts; diversity is that of their `continuations`.
    pub fn judge(&self, texts: &[&str], continuations: &[&str]) -> Result<Verdict> {
        let perplexities = match &self.fluency {
            Some(fluency) => {
                let values = Composite::single(fluency.clone()).score(texts)?;
                Some(values.into_iter().map(|value| (-value).exp()).collect())
            }
            None => None,
        };
        Ok(Verdict {
            rewards: self.reward.score_parts(texts)?,
            perplexities,
            dist: [1, 2, 3].map(|size| metrics::dist(continuations, size)),
            dist_reference: [1, 2, 3].map(|size| metrics::dist_reference(continuations, size)),
        })
    }
}
