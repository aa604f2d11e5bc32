//! `ppl:MODEL` and `perplexity`: −mean NLL of a text in nats per token.
//!
//! With a BOS every token of the text counts, without one all but the first. The text is cut to the
//! window or to the model's longest sequence.

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

    /// The ids texts are scored as, and whether the window cut them.
    fn ids(&self, texts: &[&str]) -> Result<Vec<(Vec<u32>, bool)>> {
        let bare: Vec<&str> =
            texts.iter().map(|text| if self.strip { text.trim() } else { text }).collect();
        let ids = self.scorer.ids_of(&bare);
        let ids = ids.map_err(|error| failed(&self.name, "cannot tokenise the text", error))?;
        let most = self.max_tokens + usize::from(self.scorer.bos_id().is_some());
        let cut = |mut ids: Vec<u32>| {
            let cut = ids.len() >= most;
            ids.truncate(most);
            (ids, cut)
        };
        Ok(ids.into_iter().map(cut).collect())
    }

    fn explain_rows(
        &self,
        ids: &[&[u32]],
        text: impl Fn(usize) -> String,
    ) -> Result<Vec<Explained>> {
        let rows = self.scorer.nll(ids);
        let rows = rows.map_err(|error| failed(&self.name, "cannot score the tokens", error))?;
        rows.iter()
            .enumerate()
            .map(|(index, row)| match mean_nll(row) {
                Some(nll) => Ok(Explained {
                    value: -self.factor * nll,
                    detail: Some(json!({ "nll_mean": nll, "tokens": row.len() })),
                }),
                None => {
                    let message = format!("no token to score in the text {}", text(index));
                    Err(Error::reward(&self.name, message))
                }
            })
            .collect()
    }
}

impl TextReward for ScorerReward {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(self.explain(texts)?.into_iter().map(|row| row.value).collect())
    }

    fn range(&self) -> Range {
        Range::AT_MOST_ZERO
    }

    fn batch_size(&self) -> usize {
        super::BATCH
    }

    fn window(&self, text: &str) -> Result<Window> {
        if super::surely_fits(text, self.max_tokens) {
            return Ok(Window::Whole);
        }
        let (ids, cut) = self.ids(&[text])?.swap_remove(0);
        if !cut {
            return Ok(Window::Whole);
        }
        let before = if self.strip { text.len() - text.trim_start().len() } else { 0 };
        // Where the text of the window ends is a guess that the caller verifies.
        let decoded = self.scorer.tokenizer().and_then(|tokenizer| tokenizer.decode(&ids));
        let decoded =
            decoded.map_err(|error| failed(&self.name, "cannot decode the window", error))?;
        Ok(Window::Tokens { ids: ids.into(), end: (before + decoded.len()).min(text.len()) })
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let ids = self.ids(texts)?;
        let views: Vec<&[u32]> = ids.iter().map(|(ids, _)| ids.as_slice()).collect();
        self.explain_rows(&views, |row| quoted(texts[row]))
    }

    fn explain_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        self.explain_rows(ids, |row| format!("ids {:?}", ids[row]))
    }
}
