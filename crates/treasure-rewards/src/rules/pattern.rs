//! `regex:PATTERN`: 1 if the pattern matches anywhere in the text, else 0.
//!
//! Linear time in the text, whatever the pattern (the `regex` crate has no back-tracking).

use crate::{Error, Range, Result, TextReward};

/// A regular expression as a reward.
#[derive(Debug)]
pub struct Pattern {
    name: String,
    regex: regex::Regex,
}

impl Pattern {
    /// A reward called `name` that looks for `pattern`.
    pub fn new(name: impl Into<String>, pattern: &str) -> Result<Self> {
        let name = name.into();
        match regex::Regex::new(pattern) {
            Ok(regex) => Ok(Self { name, regex }),
            Err(error) => {
                Err(Error::reward(name, "the pattern does not compile").with_source(error))
            }
        }
    }
}

impl TextReward for Pattern {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(texts.iter().map(|text| f64::from(self.regex.is_match(text))).collect())
    }

    fn range(&self) -> Range {
        Range::UNIT
    }
}

/// Whether a pattern compiles; if not, the byte offset of the fault and what it is.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), (usize, String)> {
    let message = match regex::Regex::new(pattern) {
        Ok(_) => return Ok(()),
        Err(regex::Error::Syntax(message)) => message,
        Err(other) => return Err((0, other.to_string())),
    };
    // The crate reports a fault as text: the pattern indented by four, a caret line, `error: …`.
    let fault = message.lines().rev().find_map(|line| line.strip_prefix("error: "));
    let caret = message
        .lines()
        .find(|line| line.contains('^') && line.trim_matches(['^', ' ']).is_empty())
        .and_then(|line| line.find('^')?.checked_sub(4))
        .filter(|_| !pattern.contains('\n'));
    let offset =
        caret.and_then(|column| pattern.char_indices().nth(column)).map_or(0, |(offset, _)| offset);
    Err((offset, fault.unwrap_or("the pattern does not compile").to_string()))
}
