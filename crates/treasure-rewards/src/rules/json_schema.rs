//! `json-schema:FILE`: 1 if the text is a JSON document that the schema accepts, else partial credit.
//!
//! Below 0.4 the text cannot become JSON: what counts is how much of it could. Below 0.5 it only ends
//! too early: what counts is what is missing. Above, it is JSON: what counts is how few faults the
//! schema finds.
//! A `$ref` to another document is never fetched, neither from the network nor from a file.

use std::{path::Path, sync::Arc};

use serde_json::Value;

use super::{Fault, Scheme, one_by_one};
use crate::{Error, Result, spec::Style};

pub(super) const SCHEME: Scheme = Scheme {
    name: "json-schema",
    style: Style::Labelled,
    wants: "a file",
    missing: None,
    check: |arguments| match &arguments[1..] {
        [] => Ok(()),
        [anywhere] if anywhere == "anywhere" => Ok(()),
        [other, ..] => {
            let message = format!("expected #anywhere or nothing, got {other:?}");
            Err(Fault { argument: 1, ..Fault::new(0, message) })
        }
    },
    build: |name, arguments| {
        let anywhere = arguments.len() > 1;
        Ok(Arc::new(JsonSchema::from_file(name, arguments[0].as_ref(), anywhere)?))
    },
};

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
            Error::reward(&name, format!("cannot read {}", file.display()))
                .with_source(error)
                .with_hint("name a file that is there, from the folder that you are in")
        })?;
        let schema: Value = serde_json::from_str(&text).map_err(|error| {
            Error::reward(&name, format!("{} is not JSON", file.display()))
                .with_source(error)
                .with_hint("name a file that holds a JSON Schema")
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
            Err(Broken::Wrong { viable }) => 0.4 * viable as f64 / document.len().max(1) as f64,
            Err(Broken::Unfinished) => {
                // What is missing: brackets to close, and what the schema would say then.
                let open = Open::of(document).closers.len();
                let faults =
                    closed(document).map_or(2, |value| self.validator.iter_errors(&value).count());
                0.4 + 0.1 / (1 + open + faults) as f64
            }
        }
    }
}

/// Why a text is not a JSON document.
enum Broken {
    /// It stops being the beginning of one after so many bytes.
    Wrong { viable: usize },
    /// It only ends too early.
    Unfinished,
}

fn parse(text: &str) -> Result<Value, Broken> {
    serde_json::from_str(text).map_err(|error| {
        if text.trim().is_empty() {
            return Broken::Wrong { viable: 0 };
        }
        if error.is_eof() {
            return Broken::Unfinished;
        }
        // serde_json counts lines from 1 and columns in bytes, the column being that of the last byte read.
        let line_start = match error.line() {
            0 | 1 => 0,
            line => text.match_indices('\n').nth(line - 2).map_or(0, |(end, _)| end + 1),
        };
        Broken::Wrong { viable: (line_start + error.column().saturating_sub(1)).min(text.len()) }
    })
}

/// An unfinished document with its brackets closed, if need be without what follows its last comma.
fn closed(text: &str) -> Option<Value> {
    let close = |text: &str| {
        let closers = Open::of(text).closers;
        serde_json::from_str(&(text.to_string() + &closers.iter().rev().collect::<String>())).ok()
    };
    close(text).or_else(|| close(&text[..Open::of(text).last_comma?]))
}

/// What a beginning of a document leaves open.
#[derive(Default)]
struct Open {
    /// The quote and brackets that would close it, outermost first.
    closers: Vec<char>,
    /// The last comma outside a string.
    last_comma: Option<usize>,
}

impl Open {
    fn of(text: &str) -> Self {
        let mut open = Self::default();
        let mut escaped = false;
        for (at, c) in text.char_indices() {
            let in_string = open.closers.last() == Some(&'"');
            match c {
                _ if escaped => escaped = false,
                '\\' if in_string => escaped = true,
                '"' if in_string => drop(open.closers.pop()),
                _ if in_string => {}
                '"' => open.closers.push('"'),
                '{' => open.closers.push('}'),
                '[' => open.closers.push(']'),
                '}' | ']' => drop(open.closers.pop()),
                ',' => open.last_comma = Some(at),
                _ => {}
            }
        }
        open
    }
}

one_by_one!(JsonSchema);
