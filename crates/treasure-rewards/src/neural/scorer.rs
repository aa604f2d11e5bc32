//! `ppl:MODEL` and `perplexity`: −mean NLL of a text in nats per token.
//!
//! With a BOS every token of the text counts, without one all but the first. The text is cut to the
//! window or to the model's longest sequence; what is explained says so.

use std::sync::Arc;

use serde_json::json;
use treasure_core::TokenId;
use treasure_models::{Scorer, mean_nll};

use super::failed;
use crate::{Error, Explained, Range, Result, TextReward, Window, error::quoted};

/// An autoregressive model's likelihood as a reward.
pub struct ScorerReward {
    name: String,
    scorer: Arc<Scorer>,
    max_tokens: usize,
    strip: bool,
    factor: f64,
}

impl ScorerReward {
    /// A reward called `name` on whole texts.
    pub fn new(name: impl Into<String>, scorer: Arc<Scorer>) -> Self {
        let room = scorer.max_len().saturating_sub(usize::from(scorer.bos_id().is_some()));
        Self { name: name.into(), scorer, max_tokens: room, strip: false, factor: 1.0 }
    }

    /// Looks at the first tokens of a text only, BOS not counted.
    #[must_use]
    pub fn with_window(mut self, max_tokens: usize) -> Self {
        self.max_tokens = self.max_tokens.min(max_tokens);
        self
    }

    /// Drops white space around a text first.
    #[must_use]
    pub fn stripped(mut self) -> Self {
        self.strip = true;
        self
    }

    /// Multiplies −mean NLL.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The longest sequence that is scored, BOS included.
    fn most(&self) -> usize {
        self.max_tokens + usize::from(self.scorer.bos_id().is_some())
    }

    /// The ids texts are scored as, and how many there were before the window cut them.
    fn ids(&self, texts: &[&str]) -> Result<Vec<(Vec<u32>, usize)>> {
        let bare: Vec<&str> =
            texts.iter().map(|text| if self.strip { text.trim() } else { text }).collect();
        let ids = self.scorer.ids_of(&bare);
        let ids = ids.map_err(|error| failed(&self.name, "cannot tokenise the text", error))?;
        let cut = |mut ids: Vec<u32>| {
            let all = ids.len();
            ids.truncate(self.most());
            (ids, all)
        };
        Ok(ids.into_iter().map(cut).collect())
    }

    /// The mean NLL of each sequence, with how many tokens it is over.
    fn means(&self, ids: &[&[u32]], text: impl Fn(usize) -> String) -> Result<Vec<(f64, usize)>> {
        let rows = self.scorer.nll(ids);
        let rows = rows.map_err(|error| failed(&self.name, "cannot score the tokens", error))?;
        let mean = |(index, row): (usize, &Vec<f64>)| match mean_nll(row) {
            Some(nll) => Ok((nll, row.len())),
            None => {
                let message = format!("no token to score in the text {}", text(index));
                Err(Error::reward(&self.name, message))
            }
        };
        rows.iter().enumerate().map(mean).collect()
    }

    fn explained(&self, (nll, tokens): (f64, usize)) -> Explained {
        let detail = json!({ "nll_mean": nll, "tokens": tokens });
        Explained { value: -self.factor * nll, detail: Some(detail) }
    }
}

impl TextReward for ScorerReward {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let ids = self.ids(texts)?;
        let views: Vec<&[u32]> = ids.iter().map(|(ids, _)| ids.as_slice()).collect();
        let means = self.means(&views, |row| quoted(texts[row]))?;
        Ok(means.into_iter().map(|(nll, _)| -self.factor * nll).collect())
    }

    fn range(&self) -> Range {
        Range::AT_MOST_ZERO
    }

    fn batch_size(&self) -> Option<usize> {
        Some(super::BATCH)
    }

    fn window(&self, text: &str) -> Result<Window> {
        if super::surely_fits(text, self.max_tokens) {
            return Ok(Window::Whole);
        }
        let (ids, all) = self.ids(&[text])?.swap_remove(0);
        if all < self.most() {
            return Ok(Window::Whole);
        }
        let before = if self.strip { text.len() - text.trim_start().len() } else { 0 };
        // Where the text of the window ends is a guess that the caller verifies.
        let decoded = self.scorer.tokenizer().and_then(|tokenizer| Ok(tokenizer.decode(&ids)?));
        let decoded =
            decoded.map_err(|error| failed(&self.name, "cannot decode the window", error))?;
        Ok(Window::Tokens { ids: ids.into(), end: (before + decoded.len()).min(text.len()) })
    }

    fn cut(&self, text: &str) -> Result<Option<usize>> {
        if super::surely_fits(text, self.max_tokens) {
            return Ok(None);
        }
        let (ids, all) = self.ids(&[text])?.swap_remove(0);
        Ok((all > ids.len()).then_some(self.max_tokens))
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let ids = self.ids(texts)?;
        let views: Vec<&[u32]> = ids.iter().map(|(ids, _)| ids.as_slice()).collect();
        let means = self.means(&views, |row| quoted(texts[row]))?;
        let explain = |(mean, (seen, all)): (_, &(Vec<u32>, usize))| {
            self.explained(mean).cut(*all, seen.len())
        };
        Ok(means.into_iter().zip(&ids).map(explain).collect())
    }

    fn explain_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        let means = self.means(ids, |row| format!("ids {:?}", ids[row]))?;
        Ok(means.into_iter().map(|mean| self.explained(mean)).collect())
    }
}
