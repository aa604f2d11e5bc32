//! What can go wrong with text: the thing first, expected then got, and what a user can do about it.
//!
//! Messages quote files and texts; whatever in them could steer a terminal is escaped.

use std::{borrow::Cow, error::Error as StdError, fmt};

use treasure_core::Hint;

use crate::{automata, printable};

/// The result of an operation on text.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, by whose fault it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for cannot be: a text, a template, a length.
    Invalid(Report),
    /// A file that is damaged or says what cannot be.
    Damaged(Report),
    /// A constraint that cannot be built or met.
    Constraint(automata::Error),
}

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

impl Error {
    /// An error that says what is wrong.
    pub fn new(message: impl AsRef<str>) -> Self {
        Self::Invalid(Report::new(message))
    }

    /// An error about a value outside its domain.
    pub fn expected(
        what: impl fmt::Display,
        wanted: impl fmt::Display,
        got: impl fmt::Display,
    ) -> Self {
        Self::Invalid(Report::expected(what, wanted, got))
    }

    /// The same about a file: what cannot be is the file's fault, not the caller's.
    #[must_use]
    pub fn of_file(self) -> Self {
        match self {
            Self::Invalid(report) => Self::Damaged(report),
            other => other,
        }
    }

    /// Adds what a user can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl AsRef<str>) -> Self {
        if let Self::Invalid(report) | Self::Damaged(report) = &mut self {
            report.set_hint(hint);
        }
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        if let Self::Invalid(report) | Self::Damaged(report) = &mut self {
            report.set_cause(source.into(), true);
        }
        self
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Invalid(report) | Self::Damaged(report) => report.hint().map(Cow::Borrowed),
            Self::Constraint(error) => error.hint(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(report) | Self::Damaged(report) => f.write_str(report.message()),
            Self::Constraint(error) => f.write_str(&printable(&error.to_string())),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Invalid(report) | Self::Damaged(report) => report.cause(),
            Self::Constraint(_) => None,
        }
    }
}

impl From<automata::Error> for Error {
    fn from(error: automata::Error) -> Self {
        Self::Constraint(error)
    }
}

impl From<Error> for treasure_core::Error {
    /// The message reads well alone; the source is the same error, which carries the hint.
    fn from(error: Error) -> Self {
        Self::Denoiser { message: error.to_string(), source: Some(Box::new(error)) }
    }
}
