//! Scores and predictions without a search.

use serde::Serialize;
use serde_json::{Map, Value};
use treasure_rewards::Breakdown;

use super::Session;
use crate::{
    Plan, Predicted, Request, Result,
    predict::{encoded, encoded_at, predict, state_of, state_of_ids},
};

/// A text, or token ids as they are, with its score. Field names and order are the contract of the JSON
/// row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scored {
    /// The text; none for token ids.
    pub text: Option<String>,
    /// The token ids, where they were scored as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<u32>>,
    /// The reward.
    pub reward: f64,
    /// Each part as written.
    pub rewards: Map<String, Value>,
    /// What led to it.
    pub detail: Value,
}

impl Session {
    /// Scores texts, with what led to each number.
    ///
    /// ```
    /// let session = treasure::Session::pocket()?;
    /// let scored = session.score("contains:dog + 0.5*length:1..9", &["The dog ran."])?;
    /// assert_eq!((scored[0].reward, &scored[0].rewards["contains:dog"]), (1.5, &1.0.into()));
    /// # Ok::<(), treasure::Error>(())
    /// ```
    pub fn score(&self, reward: &str, texts: &[&str]) -> Result<Vec<Scored>> {
        let plan = Plan::new(&Request { reward: Some(reward.into()), ..Request::default() })?;
        self.score_under(&plan, texts)
    }

    /// Scores texts with the reward of a plan.
    pub fn score_under(&self, plan: &Plan, texts: &[&str]) -> Result<Vec<Scored>> {
        let found = self.reward_of(plan)?.breakdown(texts)?.into_iter().zip(texts);
        Ok(found.map(|(row, text)| scored(row, Some((*text).to_owned()), None)).collect())
    }

    /// Scores token ids as they are with the reward of a plan, no special tokens added.
    pub fn score_ids(&self, plan: &Plan, ids: Vec<u32>) -> Result<Scored> {
        let mut found = self.reward_of(plan)?.breakdown_ids(&[ids.as_slice()])?;
        Ok(scored(found.swap_remove(0), None, Some(ids)))
    }

    /// What a denoiser would put at each mask of a text with holes.
    pub fn predict(
        &self,
        plan: &Plan,
        text: &str,
        top: usize,
        sigma: Option<f64>,
    ) -> Result<Vec<Predicted>> {
        if let (Some(own), None) = (self.inner.models.get(&plan.model), sigma) {
            let state = state_of(&**own, text)?;
            return predict(&**own, Some(own.tokenizer()?), &state, encoded(&**own, &state)?, top);
        }
        let model = self.checkpoint(&plan.model, &plan.load)?;
        let state = state_of(&*model, text)?;
        let encoding = encoded_at(&model, &state, sigma)?;
        predict(&*model, Some(model.tokenizer()?), &state, encoding, top)
    }

    /// What a checkpoint would put at each mask among ids.
    pub fn predict_ids(
        &self,
        plan: &Plan,
        slots: Vec<Option<u32>>,
        top: usize,
        sigma: Option<f64>,
    ) -> Result<Vec<Predicted>> {
        let model = self.checkpoint(&plan.model, &plan.load)?;
        let state = state_of_ids(&model, slots)?;
        let encoding = encoded_at(&model, &state, sigma)?;
        // Ids need no tokenizer: one that is not there is no reason to fetch it.
        predict(&*model, model.tokenizer_at_hand(), &state, encoding, top)
    }
}

fn scored(row: Breakdown, text: Option<String>, ids: Option<Vec<u32>>) -> Scored {
    let rewards = row.parts.into_iter().map(|(name, value)| (name, value.into())).collect();
    let detail = row.detail.unwrap_or_else(|| Map::new().into());
    Scored { text, ids, reward: row.total, rewards, detail }
}
