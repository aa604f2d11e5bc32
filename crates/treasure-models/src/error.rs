//! What can go wrong with a checkpoint: the thing first, expected then got, and what a user can do about it.
//!
//! Messages quote files (names of tensors, types, labels); whatever in them could steer a terminal is escaped.

use std::{error::Error as StdError, fmt};

use crate::printable::printable;

/// The result of loading or running a model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with an optional cause and an optional hint.
#[derive(Debug)]
pub struct Error {
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error that says what is wrong.
    pub fn new(message: impl Into<String>) -> Self {
        let message: String = message.into();
        Self { message: printable(&message).into_owned(), hint: None, source: None }
    }

    /// An error about a value outside its domain.
    pub fn expected(
        what: impl fmt::Display,
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) -> Self {
        Self::new(format!("{what}: expected {expected}, got {got}"))
    }

    /// Adds what a user can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        let hint: String = hint.into();
        self.hint = Some(printable(&hint).into_owned());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        self.source = Some(if source.is::<Self>() { source } else { Box::new(Shown(source)) });
        self
    }

    /// Puts the place in front: `place: message`. Hint and cause stay.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{}: {}", printable(&place.to_string()), self.message);
        self
    }

    /// What a user can do about it, if anything.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
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

impl From<crate::exec::ExecError> for Error {
    fn from(error: crate::exec::ExecError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<Error> for treasure_core::Error {
    fn from(error: Error) -> Self {
        Self::Denoiser { message: error.to_string(), source: Some(Box::new(error)) }
    }
}
