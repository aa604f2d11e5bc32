//! Reading numbers out of answers, and OpenRLHF's `POST /get_reward`, which gives nothing else.

use serde_json::{Value, json};

use super::{
    Server,
    fleet::{Answer, Failure, Fleet},
};
use crate::{Explained, Result, error::quoted};

/// Probabilities below this count as this: a server prints them as 0, and ln 0 is no number.
const SMALLEST_PROBABILITY: f64 = f32::MIN_POSITIVE as f64;

/// The logarithm of a probability that a server printed.
pub(super) fn ln_probability(probability: f64) -> f64 {
    if probability.is_nan() { f64::NAN } else { probability.max(SMALLEST_PROBABILITY).ln() }
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
            .map(|row| {
                let number = match row.as_array().map(Vec::as_slice) {
                    Some([only]) => only.as_f64(), // Some servers wrap each number in a list.
                    _ => row.as_f64(),
                };
                number.ok_or_else(|| self.fleet.garbage(&answer, wanted))
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
