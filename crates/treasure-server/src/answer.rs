//! A sample as OpenAI's choice, with all of ours under `treasure`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use treasure::Sample;

use crate::{
    ask::{Api, Ask},
    options::Served,
    spell::Shown,
    stop,
};

/// What every part of an answer says about itself.
#[derive(Clone)]
pub(crate) struct Envelope {
    pub id: String,
    created: u64,
    model: String,
    api: Api,
}

impl Envelope {
    pub fn new(ask: &Ask, request_id: &str) -> Self {
        let kind = if ask.api == Api::Chat { "chatcmpl" } else { "cmpl" };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let created = since.map_or(0, |since| since.as_secs());
        Self {
            id: format!("{kind}-{request_id}"),
            created,
            model: ask.model.id.clone(),
            api: ask.api,
        }
    }

    /// The whole answer, or a chunk of it.
    pub fn around(&self, choices: Vec<Value>, chunk: bool) -> Map<String, Value> {
        let object = match (self.api, chunk) {
            (Api::Chat, false) => "chat.completion",
            (Api::Chat, true) => "chat.completion.chunk",
            _ => "text_completion",
        };
        let whole = json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        match whole {
            Value::Object(whole) => whole,
            _ => Map::new(),
        }
    }
}

/// Tokens of a whole answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub prompt: usize,
    pub completion: usize,
}

impl Usage {
    pub fn to_value(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        })
    }
}

/// A finished text as a client sees it.
pub(crate) struct Finished {
    pub text: String,
    pub reason: &'static str,
    pub treasure: Value,
}

/// The part of a sample that was asked for, cut where it was asked to be.
pub(crate) fn finish(ask: &Ask, sample: &Sample) -> Finished {
    let continuation = sample.continuation.as_str();
    let whole = match ask.shown {
        Shown::Whole => sample.text.as_str(),
        Shown::Continuation => continuation,
        Shown::Middle => continuation.strip_suffix(ask.suffix.as_str()).unwrap_or(continuation),
    };
    // A prompt that is echoed is no part of what is cut.
    let given = whole.len() - continuation.len().min(whole.len());
    let cut = stop::cut(&whole[given..], &ask.stop).map(|at| at + given);
    let by_budget = matches!(sample.stopped.as_deref(), Some(reason) if reason != "target-reward");
    let reason = match cut {
        None if sample.cut || by_budget => "length",
        _ => "stop",
    };
    let mut treasure = facts(sample, &ask.model);
    if cut.is_some() {
        // The reward is that of the whole.
        treasure.insert("uncut".into(), whole.into());
    }
    let text = whole[..cut.unwrap_or(whole.len())].to_owned();
    Finished { text, reason, treasure: treasure.into() }
}

/// What is known of a sample beside its text.
fn facts(sample: &Sample, model: &Served) -> Map<String, Value> {
    let mut facts = match serde_json::to_value(sample) {
        Ok(Value::Object(facts)) => facts,
        _ => Map::new(),
    };
    for name in ["version", "prompt", "text", "continuation", "prompt_index"] {
        facts.shift_remove(name);
    }
    if let Some(Value::Object(plan)) = facts.get_mut("plan") {
        // Where the operator keeps models is nobody's business.
        plan.insert("model".into(), model.id.clone().into());
        if model.base.tokenizer.is_some() {
            plan.insert("tokenizer".into(), Value::Null);
        }
    }
    facts
}

/// A choice of a whole answer.
pub(crate) fn choice(api: Api, index: usize, finished: Finished) -> Value {
    let Finished { text, reason, treasure } = finished;
    match api {
        Api::Chat => json!({
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": null},
            "logprobs": null,
            "finish_reason": reason,
            "treasure": treasure,
        }),
        _ => json!({
            "index": index,
            "text": text,
            "logprobs": null,
            "finish_reason": reason,
            "treasure": treasure,
        }),
    }
}

/// A choice of a chunk; the first of a chat says who speaks.
pub(crate) fn piece(
    api: Api,
    index: usize,
    text: Option<&str>,
    first: bool,
    reason: Option<&str>,
) -> Value {
    match api {
        Api::Chat => {
            let mut delta = Map::new();
            if first {
                delta.insert("role".into(), "assistant".into());
            }
            if let Some(text) = text {
                delta.insert("content".into(), text.into());
            }
            json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": reason})
        }
        _ => json!({
            "index": index,
            "text": text.unwrap_or_default(),
            "logprobs": null,
            "finish_reason": reason,
        }),
    }
}
