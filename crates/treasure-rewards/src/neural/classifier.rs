//! `hf:MODEL#LABEL`: what a sequence classifier thinks of a text.
//!
//! The text is cut to the window or to the classifier's longest sequence, special tokens kept.

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
    /// Texts are cut to `max_tokens`, special tokens included, which the classifier must have been told
    /// ([`Classifier::with_max_length`]).
    pub fn new(
        name: impl Into<String>,
        classifier: Arc<Classifier>,
        label: Option<&str>,
        value: ValueKind,
        max_tokens: usize,
    ) -> Result<Self> {
        let name = name.into();
        let label = labels::find_or_only(&name, classifier.labels(), label)?;
        let max_tokens = max_tokens.min(classifier.max_len());
        Ok(Self { name, classifier, label, value, max_tokens })
    }

    fn explain_row(&self, log_probs: &[f64]) -> Explained {
        let value = match (self.value, log_probs) {
            // One label has a probability of its own: it is the answer when it is likelier than not.
            (ValueKind::Accuracy, [only]) => f64::from(only.exp() >= 0.5),
            (kind, all) => kind.of(all, self.label),
        };
        let labels = self.classifier.labels().iter().cloned();
        let labels: Map<String, Value> =
            labels.zip(log_probs.iter().map(|&log_prob| json!(log_prob))).collect();
        Explained { value, detail: Some(json!({ "labels": labels })) }
    }
}

impl TextReward for ClassifierReward {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(self.explain(texts)?.into_iter().map(|row| row.value).collect())
    }

    fn range(&self) -> Range {
        self.value.range()
    }

    fn window(&self, text: &str) -> Result<Window> {
        if super::surely_fits(text, self.max_tokens) {
            return Ok(Window::Whole);
        }
        let tokens = || {
            let ids = self.classifier.ids(text)?;
            if ids.len() < self.max_tokens {
                return Ok(Window::Whole);
            }
            // Where the text of the window ends is a guess that the caller verifies.
            let end = self.classifier.tokenizer()?.decode(&ids)?.len();
            Ok(Window::Tokens { ids: ids.into(), end: end.min(text.len()) })
        };
        tokens().map_err(|error| failed(&self.name, "cannot tokenise the text", error))
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let rows = self.classifier.log_probs(texts);
        let rows = rows.map_err(|error| failed(&self.name, "cannot classify the texts", error))?;
        Ok(rows.iter().map(|row| self.explain_row(row)).collect())
    }

    fn batch_size(&self) -> usize {
        super::BATCH
    }

    fn explain_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        let rows = self.classifier.log_probs_ids(ids);
        let rows = rows.map_err(|error| failed(&self.name, "cannot classify the ids", error))?;
        Ok(rows.iter().map(|row| self.explain_row(row)).collect())
    }
}
