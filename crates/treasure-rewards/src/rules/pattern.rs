//! `regex:PATTERN`: 1 exactly if the pattern matches anywhere in the text, else how near the text comes.
//!
//! Short of a match: 1 − edits / required, where `edits` is the fewest characters to add, leave out or replace so
//! that the pattern matches somewhere, and `required` the fewest a match can consist of (assertions such as `^`
//! count as one each). So it is below 1 by at least 1 / required, and every character that a match needs counts.
//! A pattern of more than 1,024 parts gets 0 instead. Time is linear in the text (no back-tracking).

use std::sync::Arc;

use super::{Fault, Scheme, near::Near, one_by_one};
use crate::{Result, spec::Style};

pub(super) const SCHEME: Scheme = Scheme {
    name: "regex",
    style: Style::Whole,
    wants: "a pattern",
    missing: None,
    check: |arguments| Pattern::read("", &arguments[0]).map(drop),
    build: |name, arguments| Ok(Arc::new(Pattern::new(name, &arguments[0])?)),
};

/// A regular expression as a reward.
#[derive(Debug)]
pub struct Pattern {
    name: String,
    regex: regex::Regex,
    near: Option<Near>,
}

impl Pattern {
    /// A reward called `name` that looks for `pattern`.
    pub fn new(name: impl Into<String>, pattern: &str) -> Result<Self> {
        let name = name.into();
        Self::read(&name, pattern).map_err(|fault| fault.error(&name))
    }

    fn read(name: &str, pattern: &str) -> Result<Self, Fault> {
        let hint = Some(r"a backslash makes a special character a plain one: regex:a\(b");
        let fault = |at: usize, what: &dyn std::fmt::Display| Fault {
            hint,
            ..Fault::new(at, what.to_string())
        };
        let expression = match regex_syntax::parse(pattern) {
            Ok(expression) => expression,
            Err(regex_syntax::Error::Parse(error)) => {
                return Err(fault(error.span().start.offset, error.kind()));
            }
            Err(regex_syntax::Error::Translate(error)) => {
                return Err(fault(error.span().start.offset, error.kind()));
            }
            Err(error) => return Err(fault(0, &error)),
        };
        let regex = regex::Regex::new(pattern).map_err(|error| fault(0, &error))?;
        Ok(Self { name: name.into(), regex, near: Near::new(&expression) })
    }

    fn of(&self, text: &str) -> f64 {
        if self.regex.is_match(text) {
            return 1.0;
        }
        let Some(near) = &self.near else { return 0.0 };
        let required = near.required().max(1);
        // No match is never 0 edits, whatever the two libraries think of each other.
        1.0 - f64::from(near.edits(text).clamp(1, required)) / f64::from(required)
    }
}

one_by_one!(Pattern);
