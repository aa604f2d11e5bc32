//! What can go wrong with a model: the thing first, expected then got, and what a user can do about it.
//!
//! Messages quote files (names of tensors, types, labels); whatever in them could steer a terminal is escaped.

use std::{borrow::Cow, error::Error as StdError, fmt};

use treasure_core::Hint;
use treasure_text::Report;

/// The result of loading or running a model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, by what a caller can do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for cannot be: an option, a text, a token, a length.
    Invalid(Report),
    /// A model or a file that is not there.
    Missing(Report),
    /// A disk, a network or a device that does not do what it was asked for.
    Unreachable(Report),
    /// A file that is cut off, damaged, or says what cannot be.
    Damaged(Report),
    /// A checkpoint of a kind that is not implemented.
    Unsupported(Report),
    /// A number that is none: in the weights, or in what they make of an input.
    NotFinite(Report),
    /// A call that nobody waited for any more.
    GivenUp(Report),
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

    /// Something that is not there.
    pub(crate) fn missing(message: impl AsRef<str>) -> Self {
        Self::Missing(Report::new(message))
    }

    /// A disk, a network or a device that does not do what it was asked for.
    pub fn unreachable(message: impl AsRef<str>) -> Self {
        Self::Unreachable(Report::new(message))
    }

    /// A kind of checkpoint that is not implemented.
    pub(crate) fn unsupported(
        what: impl fmt::Display,
        wanted: impl fmt::Display,
        got: impl fmt::Display,
    ) -> Self {
        Self::Unsupported(Report::expected(what, wanted, got))
    }

    /// A number that is none.
    pub(crate) fn not_finite(what: impl fmt::Display, got: impl fmt::Display) -> Self {
        Self::NotFinite(Report::expected(what, "finite numbers", got))
    }

    /// A call that nobody waited for any more ([`treasure_core::given_up`]).
    pub fn given_up() -> Self {
        Self::GivenUp(Report::new("given up"))
    }

    /// The same about a file: what cannot be is the file's fault, not the caller's.
    #[must_use]
    pub(crate) fn of_file(self) -> Self {
        match self {
            Self::Invalid(report) => Self::Damaged(report),
            other => other,
        }
    }

    fn report(&self) -> &Report {
        match self {
            Self::Invalid(report)
            | Self::Missing(report)
            | Self::Unreachable(report)
            | Self::Damaged(report)
            | Self::Unsupported(report)
            | Self::NotFinite(report)
            | Self::GivenUp(report) => report,
        }
    }

    fn report_mut(&mut self) -> &mut Report {
        match self {
            Self::Invalid(report)
            | Self::Missing(report)
            | Self::Unreachable(report)
            | Self::Damaged(report)
            | Self::Unsupported(report)
            | Self::NotFinite(report)
            | Self::GivenUp(report) => report,
        }
    }

    /// Adds what a user can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl AsRef<str>) -> Self {
        self.report_mut().set_hint(hint);
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        let foreign = !source.is::<Self>();
        self.report_mut().set_cause(source, foreign);
        self
    }

    /// Puts the place in front: `place: message`. Hint and cause stay.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.report_mut().set_place(place);
        self
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        self.report().hint().map(Cow::Borrowed)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.report().message())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.report().cause()
    }
}

impl From<treasure_text::Error> for Error {
    fn from(error: treasure_text::Error) -> Self {
        match error {
            treasure_text::Error::Damaged(report) => Self::Damaged(report),
            treasure_text::Error::Invalid(report) => Self::Invalid(report),
            other => {
                let error = Self::new(other.to_string());
                other.hint().into_iter().fold(error, Self::with_hint)
            }
        }
    }
}

impl From<Error> for treasure_text::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(report) => Self::Invalid(report),
            Error::Missing(report)
            | Error::Unreachable(report)
            | Error::Damaged(report)
            | Error::Unsupported(report)
            | Error::NotFinite(report)
            | Error::GivenUp(report) => Self::Damaged(report),
        }
    }
}

impl From<Error> for treasure_core::Error {
    /// The message reads well alone; the source is the same error, which carries the hint.
    fn from(error: Error) -> Self {
        match error {
            Error::GivenUp(_) => Self::GivenUp { whose: "the model".into() },
            error => Self::Denoiser { message: error.to_string(), source: Some(Box::new(error)) },
        }
    }
}
