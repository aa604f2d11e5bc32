//! Messages to a prompt, by the template of the model that is asked.

use std::{fmt, sync::Arc};

use serde_json::Value;
pub use treasure::Message;

use crate::{
    app::App,
    fields::Fields,
    options::Served,
    refusal::{Refusal, Result},
};

type Render = dyn Fn(&[Message]) -> treasure::Result<String> + Send + Sync;

/// How messages become the prompt that a model continues.
#[derive(Clone)]
pub struct Chat(Arc<Render>);

impl Chat {
    /// A template as a function.
    pub fn new(
        render: impl Fn(&[Message]) -> treasure::Result<String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(render))
    }

    /// For models without a template of their own: what was said, one message a line.
    pub fn plain() -> Self {
        Self::new(|messages| {
            let lines: Vec<&str> = messages.iter().map(|each| each.content.as_str()).collect();
            Ok(lines.join("\n"))
        })
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chat")
    }
}

/// Messages that a request may have.
const MESSAGES: usize = 1_024;

/// The prompt that a request's messages stand for: by the operator's function, else by the template of
/// the checkpoint; and whether it is the latter's, special tokens and all.
pub(crate) fn prompt(fields: &mut Fields, app: &App, model: &Served) -> Result<(String, bool)> {
    let messages = messages(fields)?;
    let wrong = |error: treasure::Error| Refusal::of_request(&error, &[]).beside("messages");
    if let Some(chat) = &model.chat {
        return Ok(((chat.0)(&messages).map_err(wrong)?, false));
    }
    let (plan, denoiser) = app.denoiser(model).map_err(wrong)?;
    if denoiser.chat().is_none() {
        return Err(Refusal::field(
            "messages",
            format_args!("expected a model with a chat template, got {}, which has none", model.id),
        )
        .with_hint("ask for the continuation of a text: POST /v1/completions with a prompt"));
    }
    Ok((plan.conversation(&*denoiser, &messages).map_err(wrong)?, true))
}

fn messages(fields: &mut Fields) -> Result<Vec<Message>> {
    let list = match fields.value("messages") {
        Some(Value::Array(list)) if !list.is_empty() && list.len() <= MESSAGES => list,
        Some(Value::Array(list)) => {
            let message = format!("expected 1 to {MESSAGES} messages, got {}", list.len());
            return Err(Refusal::field("messages", message));
        }
        other => {
            let other = other.unwrap_or_default();
            return Err(Refusal::expected("messages", "a list of messages", &other));
        }
    };
    list.into_iter().enumerate().map(|(at, message)| read(at, message)).collect()
}

fn read(at: usize, message: Value) -> Result<Message> {
    let wrong = |part: &str, expected: &str, got: &Value| {
        Refusal::expected(format!("messages[{at}]{part}"), expected, got)
    };
    let Value::Object(mut message) = message else {
        return Err(wrong("", "an object with role and content", &message));
    };
    let role = match message.shift_remove("role") {
        Some(Value::String(role))
            if ["system", "developer", "user", "assistant"].contains(&role.as_str()) =>
        {
            // OpenAI's newer name of the same thing.
            if role == "developer" { "system".into() } else { role }
        }
        other => {
            return Err(wrong(".role", "system, user or assistant", &other.unwrap_or_default()));
        }
    };
    let content = match message.shift_remove("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => {
            let mut text = String::new();
            for part in &parts {
                match (part.get("type").and_then(Value::as_str), part.get("text")) {
                    (Some("text"), Some(Value::String(part))) => text.push_str(part),
                    _ => return Err(wrong(".content", "text parts", part)),
                }
            }
            text
        }
        other => return Err(wrong(".content", "a text", &other.unwrap_or_default())),
    };
    Ok(Message { role, content })
}
