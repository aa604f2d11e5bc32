//! `POST /score`: vLLM's score of a text against a query, and SGLang's probability of label tokens.

use serde_json::{Value, json};

use super::{
    Server,
    fleet::{Failure, Fleet},
    numbers::{ln_probability, probability},
};
use crate::{Error, Explained, Range, Result, spec::ValueKind};

fn query_of(fleet: &Fleet, label: Option<String>) -> Result<String> {
    label.ok_or_else(|| {
        Error::reward(&fleet.name, "/score expects the query that texts are scored against after #")
            .with_hint("write it behind the address: /score#QUERY")
    })
}

/// vLLM: `{"text_1": query, "text_2": [...]}` → one score per text.
pub(super) struct PairScore {
    fleet: Fleet,
    query: String,
}

impl PairScore {
    pub fn new(fleet: Fleet, label: Option<String>) -> Result<Self> {
        Ok(Self { query: query_of(&fleet, label)?, fleet })
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        let body = self.fleet.with_model(json!({ "text_1": self.query, "text_2": texts }));
        let answer = self.fleet.post("/score", &body)?;
        let wanted = "{\"score\": number} under \"data\"";
        let rows = self.fleet.rows(&answer, answer.json.get("data"), texts.len(), wanted)?;
        rows.into_iter()
            .zip(texts)
            .map(|(row, text)| {
                let score = row.get("score").and_then(Value::as_f64);
                score.ok_or_else(|| self.fleet.wrong(&answer, wanted, text, row))
            })
            .collect()
    }
}

impl Server for PairScore {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        self.fleet.dispatch_plain(texts, |chunk| self.ask(chunk))
    }
}

/// SGLang: the probability of the first of some label tokens after query + text.
///
/// `sglang+http://HOST/v1/score?labels=9454,2753#QUERY`
pub(super) struct LabelTokens {
    fleet: Fleet,
    query: String,
    ids: Vec<u32>,
    value: ValueKind,
}

impl LabelTokens {
    pub fn new(fleet: Fleet, label: Option<String>, value: ValueKind) -> Result<Self> {
        let query = query_of(&fleet, label)?;
        let ids = fleet.setting("labels").unwrap_or_default().split(',');
        match ids.map(|id| id.trim().parse().ok()).collect::<Option<Vec<u32>>>() {
            _ if value == ValueKind::Raw => {
                let message = "raw: expects logits, and /score gives probabilities";
                Err(Error::reward(&fleet.name, message).with_hint("leave raw: out"))
            }
            Some(ids) if ids.len() >= 2 => Ok(Self { fleet, query, ids, value }),
            _ => Err(Error::reward(
                &fleet.name,
                "SGLang's /score expects two or more token ids, the wanted one first: /v1/score?labels=9454,2753#QUERY",
            )),
        }
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        let body = self.fleet.with_model(json!({
            "query": self.query,
            "items": texts,
            "label_token_ids": self.ids,
            "apply_softmax": true,
            "item_first": false,
        }));
        let answer = self.fleet.post("/v1/score", &body)?;
        let wanted = "a list of probabilities under \"scores\"";
        let rows = self.fleet.rows(&answer, answer.json.get("scores"), texts.len(), wanted)?;
        let wanted = format!("{} probabilities within [0, 1]", self.ids.len());
        rows.into_iter()
            .zip(texts)
            .map(|(row, text)| {
                let numbers = row.as_array().into_iter().flatten().map(probability);
                let numbers =
                    numbers.collect::<Option<Vec<f64>>>().filter(|all| all.len() == self.ids.len());
                let row = numbers.ok_or_else(|| self.fleet.wrong(&answer, &wanted, text, row))?;
                Ok(match self.value {
                    ValueKind::Prob => row[0],
                    kind => {
                        let log_probs: Vec<f64> = row.iter().map(|&p| ln_probability(p)).collect();
                        kind.of(&log_probs, 0)
                    }
                })
            })
            .collect()
    }
}

impl Server for LabelTokens {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        self.fleet.dispatch_plain(texts, |chunk| self.ask(chunk))
    }

    fn range(&self) -> Range {
        self.value.range()
    }
}
