//! What can be wrong with a pattern, a vocabulary or a length, with the values that are wrong.

use std::borrow::Cow;

use treasure_core::{Hint, TokenId};

/// The result of an operation on constraints.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a constraint cannot be built or met. All of them come before any forward pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A regular expression that cannot be read, or is not regular.
    #[error("regex: expected a regular expression, got `{pattern}`: {message}")]
    Regex {
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        message: String,
    },
    /// A schema that is not a schema.
    #[error("schema at {at}: expected {expected}, got {got}")]
    Schema {
        /// A JSON pointer into the schema.
        at: String,
        /// What should be there.
        expected: String,
        /// What is there.
        got: String,
    },
    /// A schema with a keyword, or a use of one, that cannot be held exactly.
    #[error("schema at {at}: `{keyword}` is not supported ({why})")]
    Unsupported {
        /// A JSON pointer into the schema.
        at: String,
        /// The keyword.
        keyword: String,
        /// Why, or what to write instead.
        why: String,
    },
    /// A pattern that no text matches.
    #[error("{what}: expected a pattern that some text matches, got one that none does{why}")]
    Nothing {
        /// The pattern.
        what: String,
        /// Empty, or the reason after a colon.
        why: String,
    },
    /// A pattern that no sequence of the vocabulary's tokens spells.
    #[error("vocabulary: expected tokens that can spell a matching text, got none among {tokens}")]
    Unspellable {
        /// How many tokens have a text.
        tokens: usize,
    },
    /// Something would grow beyond its limit.
    #[error("{what}: expected at most {limit}, got {got}")]
    TooLarge {
        /// What would grow.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The estimate, or how far it got.
        got: String,
    },
    /// A text that matches needs more positions.
    #[error("length: expected at least {shortest} tokens for a text that matches, got {len}")]
    TooShort {
        /// The positions there are.
        len: usize,
        /// The smallest number of positions that would do.
        shortest: usize,
    },
    /// No matching text is as long as asked.
    #[error(
        "minimum length: expected at most {longest} tokens, the longest text that matches, got {min_len}"
    )]
    TooLong {
        /// The shortest text that was asked for.
        min_len: usize,
        /// The largest number of tokens of a matching text.
        longest: usize,
    },
    /// Tokens that are already placed leave no way to match.
    #[error("fill: expected tokens from which a matching text can be completed, got {got}")]
    NoCompletion {
        /// How many are placed, or which one rules it out.
        got: String,
    },
    /// An input of the wrong shape.
    #[error("{what}: expected {expected}, got {got}")]
    Input {
        /// The input.
        what: &'static str,
        /// What it should have been.
        expected: String,
        /// What it was.
        got: String,
    },
    /// A score that is no number or has no bound.
    #[error("scores at position {position}: expected numbers or −∞, got {got} for token {token}")]
    Score {
        /// The position.
        position: usize,
        /// The token.
        token: TokenId,
        /// The score.
        got: String,
    },
    /// A tokenizer whose tokens have no bytes of their own.
    #[error("tokenizer: expected {expected}, got {got}")]
    Tokenizer {
        /// What can be read.
        expected: String,
        /// What it has.
        got: String,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::TooShort { shortest, .. } => {
                format!("raise the length to {shortest} or more").into()
            }
            Self::TooLong { longest, .. } => {
                format!("lower the minimum length to {longest} or leave it out").into()
            }
            Self::TooLarge { .. } => {
                "such a constraint takes too long or too much memory to build: bound repetitions and \
                 lengths more tightly, or split it over several holes"
                    .into()
            }
            Self::Regex { .. } => {
                "look-around, back-references and \\b are not supported: write it without".into()
            }
            Self::Tokenizer { .. } => {
                "constraints need a tokenizer that decodes token by token".into()
            }
            _ => return None,
        })
    }
}
