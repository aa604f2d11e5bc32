//! `json-schema:FILE`: 1 if the text is a JSON document that the schema accepts, else partial credit.
//!
//! Below 1/2 the text is not JSON: what counts is how far it could still become a document, and how
//! few brackets it leaves open. From 1/2 on it is JSON: what counts is how few faults the schema finds.
//! A `$ref` to another document is never fetched, neither from the network nor from a file.

use std::path::Path;

use serde_json::Value;

use crate::{Error, Range, Result, TextReward};

/// A JSON schema as a reward.
#[derive(Debug)]
pub struct JsonSchema {
    name: String,
    validator: jsonschema::Validator,
    anywhere: bool,
}

impl JsonSchema {
    /// A reward called `name` from a schema. With `anywhere`, the document may follow other text: it
    /// starts at the first `{` or `[`.
    pub fn new(name: impl Into<String>, schema: &Value, anywhere: bool) -> Result<Self> {
        let name = name.into();
        match jsonschema::options().build(schema) {
            Ok(validator) => Ok(Self { name, validator, anywhere }),
            Err(error) => Err(Error::reward(name, format!("not a usable JSON schema: {error}"))
                .with_hint("a $ref to another document is never fetched; put it under $defs of this schema")),
        }
    }

    /// Reads the schema from a file.
    pub fn from_file(name: impl Into<String>, file: &Path, anywhere: bool) -> Result<Self> {
        let name = name.into();
        let text = std::fs::read_to_string(file).map_err(|error| {
            Error::reward(&name, format!("cannot read {}", file.display())).with_source(error)
        })?;
        let schema: Value = serde_json::from_str(&text).map_err(|error| {
            Error::reward(&name, format!("{} is not JSON", file.display())).with_source(error)
        })?;
        Self::new(name, &schema, anywhere)
    }

    fn of(&self, text: &str) -> f64 {
        let document =
            if self.anywhere { &text[text.find(['{', '[']).unwrap_or(text.len())..] } else { text };
        match parse(document) {
            Ok(value) => {
                let faults = self.validator.iter_errors(&value).count();
                0.5 + 0.5 / (1 + faults) as f64
            }
            Err(Fault { viable, open }) => {
                let reach = viable as f64 / document.len().max(1) as f64;
                // Only a document that just ends too early says how much is missing.
                let closing = open.map_or(0.0, |open| 1.0 / (2 + open) as f64);
                0.4 * reach + 0.1 * closing
            }
        }
    }
}

/// Where a text stops being the beginning of a JSON document.
struct Fault {
    /// Bytes before the fault.
    viable: usize,
    /// If the text only ends too early: how many brackets and quotes are open.
    open: Option<usize>,
}

fn parse(text: &str) -> Result<Value, Fault> {
    serde_json::from_str(text).map_err(|error| {
        if text.trim().is_empty() {
            return Fault { viable: 0, open: None };
        }
        if error.is_eof() {
            return Fault { viable: text.len(), open: Some(open_brackets(text)) };
        }
        // serde_json counts lines from 1 and columns in bytes, the column being that of the last byte read.
        let line_start = match error.line() {
            0 | 1 => 0,
            line => text.match_indices('\n').nth(line - 2).map_or(0, |(end, _)| end + 1),
        };
        let viable = (line_start + error.column().saturating_sub(1)).min(text.len());
        Fault { viable, open: None }
    })
}

fn open_brackets(text: &str) -> usize {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth + usize::from(in_string)
}

impl TextReward for JsonSchema {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(texts.iter().map(|text| self.of(text)).collect())
    }

    fn range(&self) -> Range {
        Range::UNIT
    }
}
