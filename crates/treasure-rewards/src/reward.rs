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
    /// What led to it: `{"labels": {name: log-probability}}` of a classifier (`raw:` has `logits`),
    /// `{"nll_mean", "tokens"}` of a scorer, nothing for most rules. Where the reward looked at a part of the
    /// text, also `truncated`, how many `tokens` it saw and how many there are, `of_tokens`.
    pub detail: Option<serde_json::Value>,
}

impl Explained {
    /// A number that needs no explanation.
    pub fn plain(value: f64) -> Self {
        Self { value, detail: None }
    }

    /// Says in the detail that only `seen` of `all` tokens were looked at, if that is so.
    #[must_use]
    pub(crate) fn cut(mut self, all: usize, seen: usize) -> Self {
        if let Some(serde_json::Value::Object(detail)) = self.detail.as_mut().filter(|_| all > seen)
        {
            detail.insert("truncated".into(), true.into());
            detail.entry("tokens").or_insert(seen.into());
            detail.insert("of_tokens".into(), all.into());
        }
        self
    }
}

/// A reward on text; higher is better.
///
/// Two methods make one; the others say what it reads, how it explains itself and what it promises, and have
/// defaults that are right for any reward, though slower.
pub trait TextReward: Send + Sync {
    /// A short name for messages and for the keys of `rewards`.
    fn name(&self) -> &str;

    // How it scores.

    /// One number per text, in order, each independent of the rest of the batch.
    fn score(&self, texts: &[&str]) -> Result<Vec<f64>>;

    /// Like [`score`](Self::score), with what led to each number.
    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        Ok(self.score(texts)?.into_iter().map(Explained::plain).collect())
    }

    /// Told when a text is written down that may be scored next. A reward that sleeps behind a thread may
    /// wake it; nothing else is expected.
    fn prepare(&self) {}

    /// Scores token ids of the reward's own vocabulary as they are, with no special tokens added.
    fn explain_ids(&self, _ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        Err(Error::reward(self.name(), "scores text, not token ids")
            .with_hint("token ids need a classifier or a scorer: hf:, ppl: or a short name"))
    }

    // What it reads.

    /// How much of a text it looks at. Texts that agree inside the window must score the same.
    fn window(&self, _text: &str) -> Result<Window> {
        Ok(Window::Whole)
    }

    /// How many of a text's tokens it reads, from the start, where the text has more.
    fn cut(&self, _text: &str) -> Result<Option<usize>> {
        Ok(None)
    }

    /// How many texts to hand over at a time; none if it makes its own batches of whatever comes.
    fn batch_size(&self) -> Option<usize> {
        Some(32)
    }

    // What it promises.

    /// The numbers it can give; one outside is an error when it is combined or asked by a search. `product`
    /// accepts only rewards within [0, 1], and a search may skip what an upper bound rules out.
    fn range(&self) -> Range {
        Range::ANY
    }

    /// Whether 1 means that a rule is met and anything less that it is not.
    fn is_rule(&self) -> bool {
        false
    }
}
