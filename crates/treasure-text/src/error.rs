//! What can go wrong with text: the thing first, expected then got, and what a user can do about it.
//!
//! Messages quote files and texts; whatever in them could steer a terminal is escaped.

use std::{borrow::Cow, error::Error as StdError, fmt};

use treasure_core::{Hint, TokenId};

use crate::{Report, printable};

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
    /// A regular expression that cannot be read, or is not regular.
    Regex {
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        message: String,
    },
    /// A schema that is not a schema.
    Schema {
        /// A JSON pointer into the schema.
        at: String,
        /// What should be there.
        expected: String,
        /// What is there.
        got: String,
    },
    /// A schema with a keyword, or a use of one, that cannot be held exactly.
    Unsupported {
        /// A JSON pointer into the schema.
        at: String,
        /// The keyword.
        keyword: String,
        /// Why, or what to write instead.
        why: String,
    },
    /// A pattern that no text matches.
    Nothing {
        /// The pattern.
        what: String,
        /// Empty, or the reason after a colon.
        why: String,
    },
    /// A pattern that no sequence of the vocabulary's tokens spells.
    Unspellable {
        /// How many tokens have a text.
        tokens: usize,
    },
    /// Something would grow beyond its limit.
    TooLarge {
        /// What would grow.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The estimate, or how far it got.
        got: String,
    },
    /// A text that matches needs more positions.
    TooShort {
        /// The positions there are.
        len: usize,
        /// The smallest number of positions that would do.
        shortest: usize,
    },
    /// No matching text is as long as asked.
    TooLong {
        /// The shortest text that was asked for.
        min_len: usize,
        /// The largest number of tokens of a matching text.
        longest: usize,
    },
    /// Tokens that are already placed leave no way to match.
    NoCompletion {
        /// How many are placed, or which one rules it out.
        got: String,
    },
    /// An input of the wrong shape.
    Input {
        /// The input.
        what: &'static str,
        /// What it should have been.
        expected: String,
        /// What it was.
        got: String,
    },
    /// A score that is no number or has no bound.
    Score {
        /// The position.
        position: usize,
        /// The token.
        token: TokenId,
        /// The score.
        got: String,
    },
    /// A tokenizer whose tokens have no bytes of their own.
    Tokenizer {
        /// What can be read.
        expected: String,
        /// What it has.
        got: String,
    },
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
        let fixed = match self {
            Self::Invalid(report) | Self::Damaged(report) => {
                return report.hint().map(Cow::Borrowed);
            }
            Self::TooShort { shortest, .. } => {
                return Some(format!("raise the length to {shortest} or more").into());
            }
            Self::TooLong { longest, .. } => {
                let hint = format!("lower the minimum length to {longest} or leave it out");
                return Some(hint.into());
            }
            Self::TooLarge { .. } => {
                "such a constraint takes too long or too much memory to build: bound repetitions and \
                 lengths more tightly, or split it over several holes"
            }
            Self::Regex { .. } => {
                "look-around, back-references and \\b are not supported: write it without"
            }
            Self::Schema { .. } | Self::Unsupported { .. } => {
                "docs/constraints.md lists the keywords that can be held"
            }
            Self::Nothing { .. } => "take out what contradicts itself",
            Self::Unspellable { .. } => "write it with characters that the model has tokens for",
            Self::Tokenizer { .. } => "constraints need a tokenizer that decodes token by token",
            Self::NoCompletion { .. } => {
                "loosen the pattern, or change what stands there already, so that one can follow the other"
            }
            Self::Input { .. } => "a constraint is asked in the sizes that it was built for",
            Self::Score { .. } => "see what the model predicts: its weights may be damaged",
        };
        Some(fixed.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Invalid(report) | Self::Damaged(report) => return f.write_str(report.message()),
            Self::Regex { pattern, message } => {
                format!("regex: expected a regular expression, got `{pattern}`: {message}")
            }
            Self::Schema { at, expected, got } => {
                format!("schema at {at}: expected {expected}, got {got}")
            }
            Self::Unsupported { at, keyword, why } => {
                format!("schema at {at}: `{keyword}` is not supported ({why})")
            }
            Self::Nothing { what, why } => {
                format!(
                    "{what}: expected a pattern that some text matches, got one that none does{why}"
                )
            }
            Self::Unspellable { tokens } => format!(
                "vocabulary: expected tokens that can spell a matching text, got none among {tokens}"
            ),
            Self::TooLarge { what, limit, got } => {
                format!("{what}: expected at most {limit}, got {got}")
            }
            Self::TooShort { len, shortest } => format!(
                "length: expected at least {shortest} tokens for a text that matches, got {len}"
            ),
            Self::TooLong { min_len, longest } => format!(
                "minimum length: expected at most {longest} tokens, the longest text that matches, got {min_len}"
            ),
            Self::NoCompletion { got } => format!(
                "fill: expected tokens from which a matching text can be completed, got {got}"
            ),
            Self::Input { what, expected, got } => {
                format!("{what}: expected {expected}, got {got}")
            }
            Self::Score { position, token, got } => format!(
                "scores at position {position}: expected numbers or −∞, got {got} for token {token}"
            ),
            Self::Tokenizer { expected, got } => {
                format!("tokenizer: expected {expected}, got {got}")
            }
        };
        f.write_str(&printable(&words))
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Invalid(report) | Self::Damaged(report) => report.cause(),
            _ => None,
        }
    }
}

impl From<Error> for treasure_core::Error {
    /// What a constraint says is of the request. Else the message reads well alone; the source is the same
    /// error, which carries the hint.
    fn from(error: Error) -> Self {
        let message = error.to_string();
        if let Error::Invalid(_) | Error::Damaged(_) = error {
            return Self::Denoiser { message, source: Some(Box::new(error)) };
        }
        let (what, rest) = message.split_once(": expected ").unwrap_or(("", &message));
        let (expected, got) = rest.rsplit_once(", got ").unwrap_or((rest, ""));
        let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
        Self::Invalid { what: "constraint", expected: format!("{what}{expected}"), got: got.into() }
    }
}
