//! What an error says: a message, what can be done and what led to it, safe to print.

use std::{error::Error as StdError, fmt};

use crate::printable;

/// A message with an optional hint and an optional cause.
#[derive(Debug)]
pub struct Report {
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Report {
    /// A message, made safe to print.
    pub fn new(message: impl AsRef<str>) -> Self {
        Self { message: printable(message.as_ref()).into_owned(), hint: None, source: None }
    }

    /// A message of several lines, each made safe to print.
    pub fn lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let lines: Vec<_> = lines.into_iter().map(printable).collect();
        Self { message: lines.join("\n"), hint: None, source: None }
    }

    /// `what: expected …, got …`.
    pub fn expected(
        what: impl fmt::Display,
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) -> Self {
        Self::new(format!("{what}: expected {expected}, got {got}"))
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What a user can do about it, if anything.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The cause, if there is one.
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }

    /// Says what a user can do.
    pub fn set_hint(&mut self, hint: impl AsRef<str>) {
        self.hint = Some(printable(hint.as_ref()).into_owned());
    }

    /// Names the cause; that of another library may quote a file and is escaped.
    pub fn set_cause(&mut self, source: Box<dyn StdError + Send + Sync>, foreign: bool) {
        self.source = Some(if foreign { Box::new(Shown(source)) } else { source });
    }

    /// Puts the place in front of the message.
    pub fn set_place(&mut self, place: impl fmt::Display) {
        self.message = format!("{}: {}", printable(&place.to_string()), self.message);
    }
}

/// A cause of another library, whose message may quote a file.
#[derive(Debug)]
struct Shown(Box<dyn StdError + Send + Sync>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0.to_string()))
    }
}

impl StdError for Shown {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
