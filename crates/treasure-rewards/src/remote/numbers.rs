//! Reading numbers out of answers, and OpenRLHF's `POST /get_reward`, which gives nothing else.

use serde_json::{Value, json};

use super::{
    Server,
    fleet::{Answer, Failure, Fleet},
};
use crate::{Explained, Result, error::quoted};

/// Probabilities below this count as this: a server prints them as 0, and ln 0 is no number.
const SMALLEST_PROBABILITY: f64 = f32::MIN_POSITIVE as f64;

/// How far rounding may carry a probability beyond 1 or its logarithm beyond 0.
const ROUNDING: f64 = 1e-5;

/// A number that a server printed as a probability, if it can be one.
pub(super) fn probability(number: &Value) -> Option<f64> {
    let number = number.as_f64().filter(|p| (0.0..=1.0 + ROUNDING).contains(p))?;
    Some(number.min(1.0))
}

/// A number that a server printed as the logarithm of a probability, if it can be one.
pub(super) fn log_probability(number: &Value) -> Option<f64> {
    Some(number.as_f64().filter(|&log_p| log_p <= ROUNDING)?.min(0.0))
}

/// The logarithm of a probability that a server printed.
pub(super) fn ln_probability(probability: f64) -> f64 {
    probability.max(SMALLEST_PROBABILITY).ln()
}

/// Log-probabilities of logits.
pub(super) fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = top + logits.iter().map(|logit| (logit - top).exp()).sum::<f64>().ln();
    logits.iter().map(|logit| logit - total).collect()
}

/// ln σ(x), without overflow.
pub(super) fn log_sigmoid(logit: f64) -> f64 {
    logit.min(0.0) - (-logit.abs()).exp().ln_1p()
}

impl Fleet {
    /// An answer of another shape than the protocol's.
    pub(super) fn garbage(&self, answer: &Answer, wanted: &str) -> Failure {
        let message = format!("expected {wanted}, got {}", quoted(&answer.json.to_string()));
        Failure::Other(self.error(&answer.url, message))
    }

    /// A row of another shape than the protocol's, or with numbers that cannot be.
    pub(super) fn wrong(&self, answer: &Answer, wanted: &str, text: &str, row: &Value) -> Failure {
        let (text, row) = (quoted(text), quoted(&row.to_string()));
        let message = format!("expected {wanted} for the text {text}, got {row}");
        Failure::Other(self.error(&answer.url, message))
    }

    /// Like [`dispatch`](Self::dispatch), for servers that give a number and nothing else.
    pub(super) fn dispatch_plain(
        &self,
        texts: &[&str],
        ask: impl Fn(&[&str]) -> Result<Vec<f64>, Failure> + Sync,
    ) -> Result<Vec<Explained>> {
        Ok(self.dispatch(texts, ask)?.into_iter().map(Explained::plain).collect())
    }

    /// The rows of a list, put in the order of their `index` fields where they have some.
    pub(super) fn rows<'a>(
        &self,
        answer: &'a Answer,
        list: Option<&'a Value>,
        count: usize,
        wanted: &str,
    ) -> Result<Vec<&'a Value>, Failure> {
        let rows = list.and_then(Value::as_array).filter(|rows| rows.len() == count);
        let Some(rows) = rows else {
            return Err(self.garbage(answer, &format!("{count} rows of {wanted}")));
        };
        let mut placed = vec![None; count];
        for (position, row) in rows.iter().enumerate() {
            let index = row.get("index").map_or(Some(position as u64), Value::as_u64);
            match index.and_then(|index| placed.get_mut(usize::try_from(index).ok()?)) {
                Some(place @ None) => *place = Some(row),
                _ => return Err(self.garbage(answer, "each index once")),
            }
        }
        Ok(placed.into_iter().flatten().collect())
    }
}

/// `POST /get_reward {"query": [...]}` → `{"rewards": [...]}`.
pub(super) struct GetReward {
    fleet: Fleet,
}

impl GetReward {
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet }
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        let answer = self.fleet.post("/get_reward", &json!({ "query": texts }))?;
        let list = ["rewards", "scores", "reward"].iter().find_map(|key| answer.json.get(*key));
        let wanted = "a list of numbers under \"rewards\"";
        let rows = self.fleet.rows(&answer, list.or(Some(&answer.json)), texts.len(), wanted)?;
        rows.into_iter()
            .zip(texts)
            .map(|(row, text)| {
                let number = match row.as_array().map(Vec::as_slice) {
                    Some([only]) => only.as_f64(), // Some servers wrap each number in a list.
                    _ => row.as_f64(),
                };
                number.ok_or_else(|| self.fleet.wrong(&answer, "a number", text, row))
            })
            .collect()
    }
}

impl Server for GetReward {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        self.fleet.dispatch_plain(texts, |chunk| self.ask(chunk))
    }
}
