//! Text Embeddings Inference: `POST /predict`.
//!
//! Each text is a list of its own (`["a", "b"]` would be one pair). Raw scores are asked for and
//! normalised here; each row comes sorted by score, so labels are matched by name.
//! Shapes: TEI 1.9.3, docs/openapi.json.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::{
    Server,
    fleet::{Failure, Fleet},
    numbers::{log_sigmoid, log_softmax},
};
use crate::{Explained, Range, Result, labels, spec::ValueKind};

pub(super) struct Tei {
    fleet: Fleet,
    label: Option<String>,
    value: ValueKind,
    info: OnceLock<Vec<String>>,
}

/// The labels of a text with their raw scores, in order of their names.
struct Labelled {
    names: Vec<String>,
    logits: Vec<f64>,
}

impl Tei {
    pub fn new(fleet: Fleet, label: Option<String>, value: ValueKind) -> Self {
        Self { fleet, label, value, info: OnceLock::new() }
    }

    /// The labels by index if the server tells them, and its batch limit, asked once.
    fn names_by_index(&self) -> &[String] {
        self.info.get_or_init(|| {
            let Some(info) = self.fleet.peek("/info") else { return Vec::new() };
            if let Some(limit) = info.get("max_client_batch_size").and_then(Value::as_u64) {
                self.fleet.limit_batch(usize::try_from(limit).unwrap_or(usize::MAX));
            }
            let by_index =
                info.pointer("/model_type/classifier/id2label").and_then(Value::as_object);
            let name =
                |index: usize| Some(by_index?.get(&index.to_string())?.as_str()?.to_string());
            (0..).map_while(name).collect()
        })
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Labelled>, Failure> {
        let inputs: Vec<[&str; 1]> = texts.iter().map(|text| [*text]).collect();
        let body = json!({ "inputs": inputs, "raw_scores": true, "truncate": true });
        let answer = self.fleet.post("/predict", &body)?;
        let wanted = "lists of {\"label\", \"score\"}";
        // One text may come back as a list without the outer one.
        let flat = answer.json.get(0).is_some_and(|first| first.get("label").is_some());
        let wrapped =
            if flat && texts.len() == 1 { json!([answer.json]) } else { answer.json.clone() };
        let rows = self.fleet.rows(&answer, Some(&wrapped), texts.len(), wanted)?;
        rows.into_iter()
            .zip(texts)
            .map(|(row, text)| {
                let wrong = || self.fleet.wrong(&answer, wanted, text, row);
                let mut pairs = Vec::new();
                for entry in row.as_array().into_iter().flatten() {
                    let name = entry.get("label").and_then(Value::as_str);
                    let score = entry.get("score").and_then(Value::as_f64);
                    pairs.push(name.zip(score).ok_or_else(wrong)?);
                }
                if pairs.is_empty() {
                    return Err(wrong());
                }
                pairs.sort_by(|a, b| a.0.cmp(b.0));
                let (names, logits) =
                    pairs.into_iter().map(|(name, score)| (name.to_string(), score)).unzip();
                Ok(Labelled { names, logits })
            })
            .collect()
    }

    fn explain_row(&self, row: &Labelled) -> Result<Explained> {
        let by_index = self.names_by_index();
        let wanted = match self.label.as_deref() {
            None => labels::find_or_only(&self.fleet.name, &row.names, None)?,
            Some(label) => {
                // A number means the server's index, which only `/info` tells: rows are in order of score.
                let named = label.parse().ok().and_then(|index: usize| by_index.get(index));
                let label = if labels_has(&row.names, label) {
                    label
                } else {
                    named.map_or(label, String::as_str)
                };
                row.names
                    .iter()
                    .position(|name| name == label)
                    .or_else(|| row.names.iter().position(|name| name.eq_ignore_ascii_case(label)))
                    .ok_or_else(|| labels::unknown(&self.fleet.name, &row.names, label))?
            }
        };
        if let ([logit], None, ValueKind::LogProb) =
            (row.logits.as_slice(), &self.label, self.value)
        {
            return Ok(Explained::plain(*logit)); // A reward model: its one raw score is the reward.
        }
        let log_probs = match row.logits.as_slice() {
            logits if self.value == ValueKind::Raw => logits.to_vec(),
            [logit] => vec![log_sigmoid(*logit)],
            several => log_softmax(several),
        };
        let value = match (self.value, log_probs.as_slice()) {
            (ValueKind::Accuracy, [only]) => f64::from(only.exp() >= 0.5),
            (kind, all) => kind.of(all, wanted),
        };
        let labels: Map<String, Value> = row
            .names
            .iter()
            .cloned()
            .zip(log_probs.iter().map(|&log_prob| json!(log_prob)))
            .collect();
        let kind = if self.value == ValueKind::Raw { "logits" } else { "labels" };
        Ok(Explained { value, detail: Some(json!({ kind: labels })) })
    }
}

fn labels_has(names: &[String], label: &str) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(label))
}

impl Server for Tei {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn range(&self) -> Range {
        super::label_range(self.label.as_deref(), self.value)
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        self.names_by_index();
        let rows = self.fleet.dispatch(texts, |chunk| self.ask(chunk))?;
        rows.iter().map(|row| self.explain_row(row)).collect()
    }
}
