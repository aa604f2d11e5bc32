//! Prompt files: JSON Lines with `prompt`, `context_string` or `messages`.
//!
//! A row that is none of these is an error that names the file and the line; nothing is skipped but
//! blank lines.

use std::{fs, path::Path};

use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// Reads all prompts of a file, in order.
pub fn read(path: &Path) -> Outcome<Vec<String>> {
    let name = path.display();
    let content = fs::read_to_string(path).map_err(|error| {
        Failure::new(error).context(format!("{name}: cannot be read")).hint(
            "--prompts takes a JSON Lines file, one {\"prompt\": \"…\"} a line; a prompt itself is given without an option",
        )
    })?;
    let mut prompts = Vec::new();
    for (number, line) in content.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let prompt = prompt_of(line).map_err(|message| {
            Failure::new(format!("{name}:{}: {message}", number + 1)).hint(
                "a row is {\"prompt\": \"…\"}, {\"context_string\": \"…\"} or {\"messages\": [{\"role\": \"user\", \"content\": \"…\"}]}",
            )
        })?;
        prompts.push(prompt);
    }
    if prompts.is_empty() {
        return Err(Failure::new(format!(
            "{name}: expected at least one prompt, got an empty file"
        ))
        .hint("write one {\"prompt\": \"…\"} a line"));
    }
    Ok(prompts)
}

/// The prompt of one row.
fn prompt_of(line: &str) -> Result<String, String> {
    let row: Value =
        serde_json::from_str(line).map_err(|error| format!("expected a JSON object, {error}"))?;
    let Value::Object(row) = row else {
        return Err(format!("expected a JSON object, got {}", kind(&row)));
    };
    for field in ["prompt", "context_string"] {
        match row.get(field) {
            None => {}
            Some(Value::String(prompt)) => return Ok(prompt.clone()),
            Some(other) => {
                return Err(format!("`{field}`: expected a string, got {}", kind(other)));
            }
        }
    }
    match row.get("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => join(messages),
        Some(other) => Err(format!("`messages`: expected a list of messages, got {}", kind(other))),
        None => {
            let keys: Vec<_> = row.keys().map(|key| format!("`{key}`")).collect();
            let got = if keys.is_empty() { "no field".to_string() } else { keys.join(", ") };
            Err(format!("expected `prompt`, `context_string` or `messages`, got {got}"))
        }
    }
}

/// The contents of the messages, a blank line between two. Roles are dropped: masked diffusion
/// base models know no chat format.
fn join(messages: &[Value]) -> Result<String, String> {
    let mut contents = Vec::with_capacity(messages.len());
    for (number, message) in messages.iter().enumerate() {
        match message.get("content") {
            Some(Value::String(content)) => contents.push(content.as_str()),
            _ => return Err(format!("`messages[{number}].content`: expected a string")),
        }
    }
    Ok(contents.join("\n\n"))
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

    fn read_text(text: &str) -> Outcome<Vec<String>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn all_three_row_shapes_are_read_in_order() {
        let rows = concat!(
            "{\"prompt\": \"a\"}\n",
            "\n",
            "{\"context_string\": \"\\n\\nThe book\", \"more\": 1}\n",
            "{\"messages\": [{\"role\": \"system\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"y\"}]}",
        );
        assert_eq!(read_text(rows).unwrap(), ["a", "\n\nThe book", "x\n\ny"]);
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
                ":2: expected `prompt`, `context_string` or `messages`, got `text`",
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
