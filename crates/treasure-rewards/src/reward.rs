//! What a reward on text promises: a number per text, higher is better.
//!
//! Guarantee asked of every implementation: a text's number does not depend on the rest of the batch,
//! nor on how many batches came before. Then batch sizes and caches change no result.

use treasure_core::TokenId;

use crate::{Error, Range, Result};

/// How much of a text a reward looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// All of it.
    Whole,
    /// The first tokens of the reward's own tokenizer.
    Tokens {
        /// Those tokens.
        ids: Box<[TokenId]>,
        /// How many bytes of the text they cover, from its start.
        end: usize,
    },
}

/// A number with what led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The reward.
    pub value: f64,
    /// What led to it: `{"labels": {name: log-probability}}` of a classifier,
    /// `{"nll_mean", "tokens"}` of a scorer, nothing for most rules.
    pub detail: Option<serde_json::Value>,
}

impl Explained {
    /// A number that needs no explanation.
    pub fn plain(value: f64) -> Self {
        Self { value, detail: None }
    }
}

/// A reward on text; higher is better.
pub trait TextReward: Send + Sync {
    /// A short name for messages and for the keys of `rewards`.
    fn name(&self) -> &str;

    /// One number per text, in order, each independent of the rest of the batch.
    fn score(&self, texts: &[&str]) -> Result<Vec<f64>>;

    /// The numbers it can give. `product` accepts only rewards within [0, 1].
    fn range(&self) -> Range {
        Range::ANY
    }

    /// How much of a text it looks at. Texts that agree inside the window must score the same.
    fn window(&self, _text: &str) -> Result<Window> {
        Ok(Window::Whole)
    }

    /// Like [`score`](Self::score), with what led to each number.
    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        Ok(self.score(texts)?.into_iter().map(Explained::plain).collect())
    }

    /// Scores token ids of the reward's own vocabulary as they are, with no special tokens added.
    fn explain_ids(&self, _ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        Err(Error::reward(self.name(), "scores text, not token ids")
            .with_hint("token ids need a classifier or a scorer: hf:, ppl: or a short name"))
    }

    /// How many texts to hand over at a time.
    fn batch_size(&self) -> usize {
        32
    }
}
