//! vLLM and SGLang: `POST /classify`.
//!
//! A row has the probabilities in the order of the label ids and the *name* of the likeliest label
//! only. Names are therefore learnt from the answers, the last one by elimination; a name that turns
//! out to belong to another id is an error, never a guess.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use serde_json::{Map, Value, json};

use super::{
    Server,
    fleet::{Answer, Failure, Fleet},
    numbers::{ln_probability, probability},
};
use crate::{Error, Explained, Range, Result, labels, spec::ValueKind};

pub(super) struct Classify {
    fleet: Fleet,
    label: Option<String>,
    value: ValueKind,
    paths: &'static [&'static str],
    names: Mutex<BTreeMap<usize, String>>,
}

/// A text's probabilities in id order, with the likeliest label's name if the server said it.
struct Judged {
    probabilities: Vec<f64>,
    likeliest: Option<String>,
}

impl Classify {
    /// `paths` are tried in turn where the user gave none.
    pub fn new(
        fleet: Fleet,
        label: Option<String>,
        value: ValueKind,
        paths: &'static [&'static str],
    ) -> Self {
        Self { fleet, label, value, paths, names: Mutex::default() }
    }

    fn post(&self, body: &Value) -> Result<Answer, Failure> {
        let mut result = self.fleet.post(self.paths[0], body);
        for path in &self.paths[1..] {
            match result {
                Err(Failure::NotFound(_)) if self.fleet.path().is_empty() => {
                    result = self.fleet.post(path, body);
                }
                _ => break,
            }
        }
        result
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Judged>, Failure> {
        // `input` is the documented field; SGLang's older endpoint reads `text`.
        let body = self.fleet.with_model(json!({ "input": texts, "text": texts }));
        let answer = self.post(&body)?;
        let wanted = "{\"label\", \"probs\"}";
        let list = answer.json.get("data").or(Some(&answer.json));
        let rows = self.fleet.rows(&answer, list, texts.len(), wanted)?;
        rows.into_iter()
            .zip(texts)
            .map(|(row, text)| {
                let numbers = row.get("probs").or_else(|| row.get("embedding"));
                let numbers = numbers.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let probabilities: Option<Vec<f64>> = match numbers {
                    [] => None,
                    [only] if self.is_reward_model(1) => only.as_f64().map(|only| vec![only]),
                    several => several.iter().map(probability).collect(),
                };
                match probabilities {
                    Some(probabilities) => Ok(Judged {
                        likeliest: row.get("label").and_then(Value::as_str).map(Into::into),
                        probabilities,
                    }),
                    None => {
                        let wanted = "{\"label\", \"probs\"} with probabilities within [0, 1]";
                        Err(self.fleet.wrong(&answer, wanted, text, row))
                    }
                }
            })
            .collect()
    }

    /// Whether the one number of a row is the reward itself.
    fn is_reward_model(&self, classes: usize) -> bool {
        let unnamed = self.label.is_none() && self.value == ValueKind::LogProb;
        classes == 1 && (unnamed || self.value == ValueKind::Raw)
    }

    /// Remembers the names the answers reveal.
    fn learn(&self, rows: &[Judged]) -> Result<BTreeMap<usize, String>> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let top = row.probabilities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut best = (0..row.probabilities.len()).filter(|&id| row.probabilities[id] == top);
            let (Some(id), None, Some(name)) = (best.next(), best.next(), &row.likeliest) else {
                continue; // A tie does not say whose name it is.
            };
            let known = names.entry(id).or_insert_with(|| name.clone());
            if known != name {
                let message = format!("label {id} was called {known:?} before and {name:?} now");
                return Err(Error::reward(&self.fleet.name, message));
            }
        }
        Ok(names.clone())
    }

    fn id(&self, names: &BTreeMap<usize, String>, classes: usize) -> Result<usize> {
        let name = &self.fleet.name;
        let Some(label) = self.label.as_deref() else {
            if classes == 1 {
                return Ok(0);
            }
            let message =
                format!("the classifier has {classes} labels, expected one of them after #");
            return Err(Error::reward(name, message).with_hint(labels::NAME_ONE));
        };
        if let Some((&id, _)) = names.iter().find(|(_, known)| known.eq_ignore_ascii_case(label)) {
            let message =
                format!("label {id} is called {label:?}, and this answer has {classes} labels");
            return if id < classes { Ok(id) } else { Err(Error::reward(name, message)) };
        }
        if let Some(id) = label.parse().ok().filter(|&id: &usize| id < classes) {
            return Ok(id);
        }
        let mut unnamed = (0..classes).filter(|id| !names.contains_key(id));
        match (unnamed.next(), unnamed.next()) {
            (Some(id), None) => Ok(id),
            (None, _) => {
                let known: Vec<String> = names.values().cloned().collect();
                Err(labels::unknown(name, &known, label))
            }
            _ => {
                let known: Vec<String> =
                    names.iter().map(|(id, name)| format!("{id} = {name}")).collect();
                let message = format!(
                    "no answer has named the label {label:?} yet; of {classes} labels the server named {}",
                    if known.is_empty() { "none".into() } else { known.join(", ") }
                );
                Err(Error::reward(name, message).with_hint(
                    "this server names only the likeliest label; give the label's index after #",
                ))
            }
        }
    }

    fn explain_row(&self, row: &Judged, names: &BTreeMap<usize, String>) -> Result<Explained> {
        let id = self.id(names, row.probabilities.len())?;
        if self.value == ValueKind::Raw && row.probabilities.len() > 1 {
            let message = "raw: expects one number per text, and this server gives probabilities";
            return Err(Error::reward(&self.fleet.name, message).with_hint("leave raw: out"));
        }
        if self.is_reward_model(row.probabilities.len()) {
            return Ok(Explained::plain(row.probabilities[0]));
        }
        let log_probs: Vec<f64> = row.probabilities.iter().map(|&p| ln_probability(p)).collect();
        let value = match (self.value, row.probabilities.as_slice()) {
            (ValueKind::Accuracy, [only]) => f64::from(*only >= 0.5),
            (ValueKind::Prob, all) => all[id],
            (kind, _) => kind.of(&log_probs, id),
        };
        let label = |id: usize| names.get(&id).cloned().unwrap_or_else(|| id.to_string());
        let labels: Map<String, Value> = log_probs
            .iter()
            .enumerate()
            .map(|(id, &log_prob)| (label(id), json!(log_prob)))
            .collect();
        Ok(Explained { value, detail: Some(json!({ "labels": labels })) })
    }
}

impl Server for Classify {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn range(&self) -> Range {
        super::label_range(self.label.as_deref(), self.value)
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let rows = self.fleet.dispatch(texts, |chunk| self.ask(chunk))?;
        let names = self.learn(&rows)?;
        rows.iter().map(|row| self.explain_row(row, &names)).collect()
    }
}
