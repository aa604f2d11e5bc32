//! Log-likelihood from servers of language models: −mean NLL in nats per token.
//!
//! OpenAI-style completions echo the prompt with its log-probabilities; the first is null and the last
//! belongs to the one generated token. vLLM's `prompt_logprobs` is asked for with
//! `?prompt_logprobs=1`; SGLang's `/generate` gives `input_token_logprobs`.

use serde_json::{Value, json};

use super::{
    Server,
    fleet::{Answer, Failure, Fleet},
    numbers::log_probability,
};
use crate::{Error, Explained, Range, Result, error::quoted};

/// What a row must have.
const WANTED: &str = "the log-probabilities of the prompt, none above 0,";

/// The mean over log-probabilities, with how many there were.
struct Mean {
    nll: f64,
    tokens: usize,
}

fn mean(logprobs: &[f64]) -> Option<Mean> {
    let tokens = logprobs.len();
    (tokens > 0).then(|| Mean { nll: -logprobs.iter().sum::<f64>() / tokens as f64, tokens })
}

fn explain(fleet: &Fleet, texts: &[&str], rows: Vec<Option<Mean>>) -> Result<Vec<Explained>> {
    let explain_row = |(text, row): (&&str, Option<Mean>)| match row {
        Some(Mean { nll, tokens }) => Ok(Explained {
            value: -nll,
            detail: Some(json!({ "nll_mean": nll, "tokens": tokens })),
        }),
        None => {
            let message = format!("no token of the text {} has a log-probability", quoted(text));
            Err(Error::reward(&fleet.name, message))
        }
    };
    texts.iter().zip(rows).map(explain_row).collect()
}

/// Numbers of a list whose first entries may be null: a token without anything before it has none.
fn without_leading_nulls(list: &[Value]) -> Option<Vec<f64>> {
    list.iter().skip_while(|entry| entry.is_null()).map(log_probability).collect()
}

/// An OpenAI-style completions server.
pub(super) struct Completions {
    fleet: Fleet,
}

impl Completions {
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet }
    }

    fn refuse_llama_server(&self, url: &str) -> Failure {
        Failure::Other(
            self.fleet
                .error(
                    url,
                    "llama-server gives no log-probabilities of a prompt, so it cannot score texts",
                )
                .with_hint("use vLLM or SGLang, or load the GGUF file directly with ppl:FILE.gguf"),
        )
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Option<Mean>>, Failure> {
        let owner = self.fleet.served_model().and_then(|model| model.get("owned_by"));
        if owner.and_then(Value::as_str).is_some_and(is_llama_server) {
            return Err(self.refuse_llama_server("/v1/models"));
        }
        let prompt_logprobs = self.fleet.setting("prompt_logprobs").is_some();
        let mut body = json!({ "prompt": texts, "max_tokens": 1, "temperature": 0 });
        if prompt_logprobs {
            body["prompt_logprobs"] = json!(0);
        } else {
            body["echo"] = json!(true);
            body["logprobs"] = json!(1);
        }
        let body = self.fleet.with_model(body);
        let answer = self.fleet.post_at(
            |address| match address.path.as_str() {
                path if path.ends_with("/completions") => address.endpoint(path),
                path => {
                    address.sibling(&format!("{}/v1/completions", path.trim_end_matches("/v1")))
                }
            },
            &body,
        )?;
        if answer.server.as_deref().is_some_and(is_llama_server) {
            return Err(self.refuse_llama_server(&answer.url));
        }
        let wanted = "\"choices\" with the log-probabilities of the prompt";
        let rows = self.fleet.rows(&answer, answer.json.get("choices"), texts.len(), wanted)?;
        // A server that generates nothing has no last entry to drop.
        let generated =
            answer.json.pointer("/usage/completion_tokens").and_then(Value::as_u64) != Some(0);
        let rows = rows.into_iter().zip(texts);
        rows.map(|(row, text)| self.row(&answer, row, generated, text)).collect()
    }

    fn row(
        &self,
        answer: &Answer,
        row: &Value,
        generated: bool,
        text: &str,
    ) -> Result<Option<Mean>, Failure> {
        if row.pointer("/logprobs/content").is_some() {
            return Err(self.refuse_llama_server(&answer.url));
        }
        let logprobs = if let Some(list) = row.get("prompt_logprobs").and_then(Value::as_array) {
            list.iter().skip_while(|entry| entry.is_null()).map(prompt_logprob).collect()
        } else {
            row.pointer("/logprobs/token_logprobs").and_then(Value::as_array).and_then(|list| {
                let end = list.len().checked_sub(usize::from(generated))?;
                without_leading_nulls(&list[..end])
            })
        };
        match logprobs {
            Some(logprobs) => Ok(mean(&logprobs)),
            None => Err(self.fleet.wrong(answer, WANTED, text, row)),
        }
    }
}

fn is_llama_server(name: &str) -> bool {
    name.eq_ignore_ascii_case("llama.cpp") || name.eq_ignore_ascii_case("llamacpp")
}

/// The log-probability of the token that stood in the prompt: of several entries the one of the
/// highest rank, since the others are there for being likelier.
fn prompt_logprob(entry: &Value) -> Option<f64> {
    let rank = |entry: &Value| entry.get("rank").and_then(Value::as_u64).unwrap_or(0);
    let own = entry.as_object()?.values().max_by_key(|entry| rank(entry))?;
    own.get("logprob").and_then(log_probability)
}

impl Server for Completions {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn range(&self) -> Range {
        Range::AT_MOST_ZERO
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let rows = self.fleet.dispatch(texts, |chunk| self.ask(chunk))?;
        explain(&self.fleet, texts, rows)
    }
}

/// SGLang's own `/generate`.
pub(super) struct InputLogprobs {
    fleet: Fleet,
}

impl InputLogprobs {
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet }
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Option<Mean>>, Failure> {
        let body = json!({
            "text": texts,
            "sampling_params": { "max_new_tokens": 1, "temperature": 0 },
            "return_logprob": true,
            "logprob_start_len": 0,
        });
        let answer = self.fleet.post("/generate", &body)?;
        let wanted = "meta_info.input_token_logprobs";
        let wrapped =
            if answer.json.is_object() { json!([answer.json]) } else { answer.json.clone() };
        let rows = self.fleet.rows(&answer, Some(&wrapped), texts.len(), wanted)?;
        rows.into_iter()
            .zip(texts)
            .map(|(row, text)| {
                let list = row.pointer("/meta_info/input_token_logprobs").and_then(Value::as_array);
                // Each entry is [log-probability, id, text].
                let first = |entry: &Value| entry.get(0).cloned().unwrap_or(json!("missing"));
                let list = list.map(|list| list.iter().map(first).collect::<Vec<_>>());
                match list.and_then(|list| without_leading_nulls(&list)) {
                    Some(logprobs) => Ok(mean(&logprobs)),
                    None => Err(self.fleet.wrong(&answer, WANTED, text, row)),
                }
            })
            .collect()
    }
}

impl Server for InputLogprobs {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn range(&self) -> Range {
        Range::AT_MOST_ZERO
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        let rows = self.fleet.dispatch(texts, |chunk| self.ask(chunk))?;
        explain(&self.fleet, texts, rows)
    }
}
