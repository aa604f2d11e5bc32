//! `hf:MODEL#LABEL`: what a sequence classifier thinks of a text.
//!
//! The text is cut to the window or to the classifier's longest sequence, special tokens kept; what is explained
//! says so.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use treasure_core::TokenId;
use treasure_models::Classifier;

use super::failed;
use crate::{Explained, Range, Result, TextReward, Window, labels, spec::ValueKind};

/// A classifier's label as a reward.
pub struct ClassifierReward {
    name: String,
    classifier: Arc<Classifier>,
    label: usize,
    value: ValueKind,
    max_tokens: usize,
}

impl ClassifierReward {
    /// A reward called `name`. `label` is a name in any case or an index; a classifier of one label needs none.
    /// Texts are cut to `window` tokens, if there is one, special tokens included: rewards with different
    /// windows share a classifier.
    pub fn new(
        name: impl Into<String>,
        classifier: Arc<Classifier>,
        label: Option<&str>,
        value: ValueKind,
        window: Option<usize>,
    ) -> Result<Self> {
        let name = name.into();
        let label = labels::find_or_only(&name, classifier.labels(), label)?;
        let longest = classifier.max_len();
        let max_tokens = window.map_or(longest, |window| window.min(longest));
        Ok(Self { name, classifier, label, value, max_tokens })
    }

    /// What the classifier says of each text: log-probabilities of the labels, or logits if those are the value.
    fn rows(&self, ids: &[&[TokenId]]) -> treasure_models::Result<Vec<Vec<f64>>> {
        if self.value == ValueKind::Raw {
            let wide = |row: Vec<f32>| row.into_iter().map(f64::from).collect();
            return Ok(self.classifier.logits_ids(ids)?.into_iter().map(wide).collect());
        }
        self.classifier.log_probs_ids(ids)
    }

    fn values(&self, texts: &[&str]) -> treasure_models::Result<Vec<Vec<f64>>> {
        let ids = self.classifier.ids_within(texts, self.max_tokens)?;
        self.rows(&ids.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    fn value(&self, row: &[f64]) -> f64 {
        match (self.value, row) {
            // One label has a probability of its own: it is the answer when it is likelier than not.
            (ValueKind::Accuracy, [only]) => f64::from(only.exp() >= 0.5),
            (kind, all) => kind.of(all, self.label),
        }
    }

    fn explained(&self, row: &[f64]) -> Explained {
        let labels = self.classifier.labels().iter().cloned();
        let labels: Map<String, Value> =
            labels.zip(row.iter().map(|&number| json!(number))).collect();
        let kind = if self.value == ValueKind::Raw { "logits" } else { "labels" };
        Explained { value: self.value(row), detail: Some(json!({ kind: labels })) }
    }
}

impl TextReward for ClassifierReward {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let rows = self.values(texts);
        let rows = rows.map_err(|error| failed(&self.name, "cannot classify the texts", error))?;
        Ok(rows.iter().map(|row| self.value(row)).collect())
    }

    fn range(&self) -> Range {
        self.value.range()
    }

    fn window(&self, text: &str) -> Result<Window> {
        if super::surely_fits(text, self.max_tokens) {
            return Ok(Window::Whole);
        }
        let tokens = || {
            let ids = self.classifier.ids_within(&[text], self.max_tokens)?.swap_remove(0);
            if ids.len() < self.max_tokens {
                return Ok(Window::Whole);
            }
            // Where the text of the window ends is a guess that the caller verifies.
            let end = self.classifier.tokenizer()?.decode(&ids)?.len();
            Ok(Window::Tokens { ids: ids.into(), end: end.min(text.len()) })
        };
        tokens().map_err(|error| failed(&self.name, "cannot tokenise the text", error))
    }

    fn cut(&self, text: &str) -> Result<Option<usize>> {
        if super::surely_fits(text, self.max_tokens) {
            return Ok(None);
        }
        let ids = self.classifier.tokenizer().and_then(|own| Ok(own.encode(text, true)?));
        let ids = ids.map_err(|error| failed(&self.name, "cannot tokenise the text", error))?;
        Ok((ids.len() > self.max_tokens).then_some(self.max_tokens))
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let explain = || {
            let rows = self.values(texts)?;
            let explained = rows.iter().zip(texts).map(|(row, text)| {
                let all = self.classifier.tokenizer()?.encode(text, true)?.len();
                Ok(self.explained(row).cut(all, self.max_tokens))
            });
            explained.collect::<treasure_models::Result<Vec<_>>>()
        };
        explain().map_err(|error| failed(&self.name, "cannot classify the texts", error))
    }

    fn batch_size(&self) -> Option<usize> {
        Some(super::BATCH)
    }

    fn explain_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        let rows = self.rows(ids);
        let rows = rows.map_err(|error| failed(&self.name, "cannot classify the ids", error))?;
        Ok(rows.iter().map(|row| self.explained(row)).collect())
    }
}
