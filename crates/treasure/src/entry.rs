//! Prompt files: JSON Lines with `prompt`, `context_string` or `messages`.
//!
//! A row that is none of these is an error that names the file and the line; nothing is skipped but
//! blank lines.

use serde_json::{Map, Value};

use treasure_text::Message;

use crate::{Error, ROW_FIELDS, Result};

/// A row of a prompt file: where a text begins, and what else the caller wrote beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The prompt, if it is one.
    pub prompt: Option<String>,
    /// The conversation that the prompt was made of, if it was one.
    pub messages: Option<Vec<Message>>,
    /// The template, if it is one.
    pub template: Option<String>,
    /// The finished text to refine, if it is one.
    pub text: Option<String>,
    /// The caller's other fields, which rows carry through.
    pub extra: Map<String, Value>,
}

impl Entry {
    /// A prompt without anything beside it.
    pub fn prompt(prompt: impl Into<String>) -> Self {
        Self { prompt: Some(prompt.into()), ..Self::default() }
    }

    /// A finished text without anything beside it.
    pub fn finished(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }
}

impl Entry {
    /// All entries of a text in JSON Lines, in order; `name` is its file's, for messages.
    pub fn read_lines(text: &str, name: &str) -> Result<Vec<Self>> {
        let mut entries = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let entry = entry_of(line).map_err(|message| {
                Error::request(format!("{name}:{}: {message}", number + 1)).with_hint(
                    "a row is {\"prompt\": \"…\"}, {\"template\": \"…\"}, {\"context_string\": \"…\"} or {\"messages\": [{\"role\": \"user\", \"content\": \"…\"}]}",
                )
            })?;
            entries.push(entry);
        }
        if entries.is_empty() {
            let message = format!("{name}: expected at least one prompt, got an empty file");
            return Err(Error::request(message).with_hint("write one {\"prompt\": \"…\"} a line"));
        }
        Ok(entries)
    }
}

/// What one row says.
fn entry_of(line: &str) -> std::result::Result<Entry, String> {
    let row: Value =
        serde_json::from_str(line).map_err(|error| format!("expected a JSON object, {error}"))?;
    let Value::Object(mut row) = row else {
        return Err(format!("expected a JSON object, got {}", kind(&row)));
    };
    let mut entry = Entry::default();
    for field in ["prompt", "context_string", "template"] {
        match row.get(field) {
            None => {}
            Some(Value::String(text)) => {
                let place =
                    if field == "template" { &mut entry.template } else { &mut entry.prompt };
                *place = Some(text.clone());
                row.remove(field);
                break;
            }
            Some(other) => {
                return Err(format!("`{field}`: expected a string, got {}", kind(other)));
            }
        }
    }
    if entry.prompt.is_none() && entry.template.is_none() {
        entry.prompt = Some(match row.remove("messages") {
            Some(Value::Array(messages)) if !messages.is_empty() => {
                let all = read(&messages)?;
                let joined = join(&all);
                entry.messages = Some(all);
                joined
            }
            Some(other) => {
                return Err(format!(
                    "`messages`: expected a list of messages, got {}",
                    kind(&other)
                ));
            }
            None => {
                let keys: Vec<_> = row.keys().map(|key| format!("`{key}`")).collect();
                let got = if keys.is_empty() { "no field".to_string() } else { keys.join(", ") };
                return Err(format!(
                    "expected `prompt`, `template`, `context_string` or `messages`, got {got}"
                ));
            }
        });
    }
    // A row that `generate` wrote can be a prompt again: its own fields are made anew.
    row.retain(|field, _| !ROW_FIELDS.contains(&field.as_str()));
    entry.extra = row;
    Ok(entry)
}

/// The contents of the messages, a blank line between two: what a model without a chat template is given.
fn join(messages: &[Message]) -> String {
    let contents: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
    contents.join("\n\n")
}

/// The messages of a row; who says one is the user where nothing is said.
fn read(messages: &[Value]) -> std::result::Result<Vec<Message>, String> {
    let message = |(number, message): (usize, &Value)| {
        let role = match message.get("role") {
            None => "user",
            Some(Value::String(role)) => role,
            Some(_) => return Err(format!("`messages[{number}].role`: expected a string")),
        };
        match message.get("content") {
            Some(Value::String(content)) => Ok(Message::new(role, content)),
            _ => Err(format!("`messages[{number}].content`: expected a string")),
        }
    };
    messages.iter().enumerate().map(message).collect()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(list) if list.is_empty() => "an empty list",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Entry>> {
        Entry::read_lines(text, "prompts.jsonl")
    }

    #[test]
    fn all_row_shapes_are_read_in_order_and_other_fields_are_carried() {
        let rows = concat!(
            "{\"prompt\": \"a\", \"id\": \"q0\", \"reward\": 3}\n",
            "\n",
            "{\"context_string\": \"\\n\\nThe book\", \"more\": 1}\n",
            "{\"template\": \"The [MASK:2].\"}\n",
            "{\"messages\": [{\"role\": \"system\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"y\"}]}",
        );
        let read = read_text(rows).unwrap();
        let prompts: Vec<_> = read.iter().map(|entry| entry.prompt.as_deref()).collect();
        assert_eq!(prompts, [Some("a"), Some("\n\nThe book"), None, Some("x\n\ny")]);
        assert_eq!(read[2].template.as_deref(), Some("The [MASK:2]."));
        assert_eq!(read[0].extra, Map::from_iter([("id".into(), "q0".into())]));
        assert_eq!(read[1].extra["more"], 1);
    }

    #[test]
    fn an_empty_file_is_an_error() {
        for empty in ["", "\n \n"] {
            assert!(read_text(empty).unwrap_err().to_string().contains("at least one prompt"));
        }
    }

    #[test]
    fn a_bad_row_names_the_line_and_what_was_found() {
        for (bad, message) in [
            (
                "{\"text\": \"a\"}",
                ":2: expected `prompt`, `template`, `context_string` or `messages`, got `text`",
            ),
            ("[1]", ":2: expected a JSON object, got a list"),
            ("{\"prompt\": 3}", ":2: `prompt`: expected a string, got a number"),
            (
                "{\"messages\": []}",
                ":2: `messages`: expected a list of messages, got an empty list",
            ),
            ("{\"prompt\": \"a", ":2: expected a JSON object, EOF"),
        ] {
            let error = read_text(&format!("{{\"prompt\": \"fine\"}}\n{bad}\n")).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
