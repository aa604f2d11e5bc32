//! What can go wrong with a checkpoint: the thing first, expected then got, and what a user can do about it.

use std::{error::Error as StdError, fmt};

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
        Self { message: message.into(), hint: None, source: None }
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
        self.hint = Some(hint.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Puts the place in front: `place: message`. Hint and cause stay.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
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

impl From<Error> for treasure_core::Error {
    fn from(error: Error) -> Self {
        Self::Denoiser { message: error.to_string(), source: Some(Box::new(error)) }
    }
}
