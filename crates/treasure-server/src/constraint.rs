//! Where OpenAI's and vLLM's ways of asking for a form of output become constraints of the search.

use serde_json::{Value, json};
use treasure::Request;

use crate::{
    fields::Fields,
    refusal::{Refusal, Result},
};

/// Every field that asks for a form of output.
pub(crate) const FIELDS: &[&str] = &[
    "response_format",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "structured_outputs",
    "guided_grammar",
    "guided_decoding_backend",
    "guided_whitespace_pattern",
    "grammar",
];

/// A form of output, and the field that asked for it.
pub(crate) struct Form {
    field: &'static str,
    asked: Asked,
}

enum Asked {
    Regex(String),
    Schema(Value),
    Choices(Vec<String>),
}

/// Takes what a request says about the form of its output, at most one thing.
pub(crate) fn take(fields: &mut Fields) -> Result<Option<Form>> {
    let mut found: Option<Form> = None;
    for field in FIELDS {
        let Some(value) = fields.value(field) else { continue };
        let Some(asked) = read(field, value)? else { continue };
        if let Some(other) = found.replace(Form { field, asked }) {
            let message = format!("expected one form of output, got {} as well", other.field);
            return Err(Refusal::field(*field, message));
        }
    }
    Ok(found)
}

fn read(field: &'static str, value: Value) -> Result<Option<Asked>> {
    match field {
        "response_format" => response_format(value),
        "guided_json" => schema(field, value).map(Some),
        "guided_regex" => regex(field, value).map(Some),
        "guided_choice" => choices(field, value).map(Some),
        "structured_outputs" => structured(value),
        _ => Err(Refusal::field(field, "this server does not support it")
            .with_code("unsupported_parameter")
            .with_hint("use response_format, guided_json, guided_regex or guided_choice")),
    }
}

fn response_format(value: Value) -> Result<Option<Asked>> {
    const FIELD: &str = "response_format";
    match value.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        // Any object: the schema says so.
        Some("json_object") => {
            Ok(Some(Asked::Schema(json!({"type": "object", "additionalProperties": true}))))
        }
        Some("json_schema") => match value.pointer("/json_schema/schema") {
            Some(found) => schema(FIELD, found.clone()).map(Some),
            None => Err(Refusal::expected(FIELD, "json_schema.schema beside its type", &value)),
        },
        Some("regex") => match value.get("pattern") {
            Some(pattern) => regex(FIELD, pattern.clone()).map(Some),
            None => Err(Refusal::expected(FIELD, "a pattern beside its type", &value)),
        },
        _ => Err(Refusal::expected(
            FIELD,
            "an object with type text, json_object, json_schema or regex",
            &value,
        )),
    }
}

fn structured(value: Value) -> Result<Option<Asked>> {
    const FIELD: &str = "structured_outputs";
    let Value::Object(mut parts) = value else {
        return Err(Refusal::expected(FIELD, "an object", &value));
    };
    parts.retain(|_, part| !part.is_null());
    let known = ["json", "regex", "choice"];
    let part = parts.iter().next().map(|(name, part)| (name.clone(), part.clone()));
    match part {
        Some((name, part)) if parts.len() == 1 && known.contains(&name.as_str()) => {
            Ok(Some(match name.as_str() {
                "json" => schema(FIELD, part)?,
                "regex" => regex(FIELD, part)?,
                _ => choices(FIELD, part)?,
            }))
        }
        None => Ok(None),
        Some(_) => {
            Err(Refusal::expected(FIELD, "one of json, regex and choice", &Value::Object(parts)))
        }
    }
}

/// A schema, or JSON that spells one.
fn schema(field: &'static str, value: Value) -> Result<Asked> {
    let value = match value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    };
    match value {
        Value::Object(_) | Value::Bool(_) => Ok(Asked::Schema(value)),
        other => Err(Refusal::expected(field, "a JSON Schema", &other)),
    }
}

fn regex(field: &'static str, value: Value) -> Result<Asked> {
    match value {
        Value::String(pattern) => Ok(Asked::Regex(pattern)),
        other => Err(Refusal::expected(field, "a regular expression", &other)),
    }
}

fn choices(field: &'static str, value: Value) -> Result<Asked> {
    let texts = value.as_array().filter(|list| !list.is_empty()).and_then(|list| {
        list.iter().map(|text| text.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    texts.map(Asked::Choices).ok_or_else(|| Refusal::expected(field, "a list of texts", &value))
}

impl Form {
    /// Puts the form into a request; returns the option's name and the field's, for refusals.
    pub fn fill(self, request: &mut Request) -> Result<(&'static str, &'static str)> {
        let taken =
            request.matches.is_some() || request.json_schema.is_some() || request.choices.is_some();
        if taken {
            let message = "expected one form of output, got one in `treasure` as well";
            return Err(Refusal::field(self.field, message));
        }
        Ok(match self.asked {
            Asked::Regex(pattern) => {
                request.matches = Some(pattern);
                ("matches", self.field)
            }
            Asked::Schema(schema) => {
                request.json_schema = Some(schema);
                ("json_schema", self.field)
            }
            Asked::Choices(choices) => {
                request.choices = Some(choices);
                ("choices", self.field)
            }
        })
    }
}
