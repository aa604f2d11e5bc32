//! What can go wrong with a reward: the thing first, then what was expected and what came.
//!
//! Every error that a user can act on carries a hint, apart from its message, so that a program can
//! print it on a line of its own. What servers, programs and files said reaches no terminal raw: control
//! characters are shown, line breaks apart.

use std::borrow::Cow;

use treasure_core::Hint;
use treasure_text::{printable, printable_lines};

/// The result of a reward operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a reward or of its specification.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A specification that cannot be read.
    #[error("reward: {}\n{}", printable_lines(message), pointed(spec, *at))]
    Spec {
        /// The whole specification.
        spec: String,
        /// The byte offset of the character that is wrong; the length of `spec` when something is missing at its end.
        at: usize,
        /// What was expected and what came.
        message: String,
        /// What the user can do about it.
        hint: String,
    },
    /// A reward that was waiting when its caller raised the [`Interrupt`](crate::Interrupt).
    #[error("{name}: interrupted")]
    Interrupted {
        /// The reward as the user wrote it.
        name: String,
    },
    /// A reward that cannot be built or that failed.
    #[error("{name}: {message}")]
    Reward {
        /// The reward as the user wrote it.
        name: String,
        /// What happened.
        message: String,
        /// What the user can do about it.
        hint: Option<String>,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl Error {
    /// A reward called `name` failed.
    pub fn reward(name: impl Into<String>, message: impl Into<String>) -> Self {
        let (name, message) = (printable_lines(&name.into()), printable_lines(&message.into()));
        Self::Reward { name, message, hint: None, source: None }
    }

    /// Whether an error, or one that led to it, is a reward's being interrupted.
    pub fn is_interruption(error: &(dyn std::error::Error + 'static)) -> bool {
        let chain = std::iter::successors(Some(error), |&error| error.source());
        let interrupted = |error: &(dyn std::error::Error + 'static)| {
            matches!(error.downcast_ref(), Some(Self::Interrupted { .. }))
                || matches!(error.downcast_ref(), Some(treasure_core::Error::GivenUp { .. }))
        };
        chain.into_iter().any(interrupted)
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, text: impl Into<String>) -> Self {
        match &mut self {
            Self::Reward { hint, .. } => *hint = Some(printable_lines(&text.into())),
            Self::Spec { hint, .. } => *hint = printable_lines(&text.into()),
            Self::Interrupted { .. } => {}
        }
        self
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(
        mut self,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        if let Self::Reward { source, .. } = &mut self {
            *source = Some(cause.into());
        }
        self
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Spec { hint, .. } => Some(hint.into()),
            Self::Reward { hint, .. } => hint.as_deref().map(Cow::Borrowed),
            Self::Interrupted { .. } => None,
        }
    }
}

impl From<treasure_text::Error> for Error {
    fn from(error: treasure_text::Error) -> Self {
        let hint = error.hint().map(Cow::into_owned);
        let error = Self::reward("text", error.to_string()).with_source(error);
        hint.into_iter().fold(error, Self::with_hint)
    }
}

impl From<Error> for treasure_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Spec { ref spec, .. } => Self::Reward {
                name: spec.clone(),
                message: error.to_string(),
                source: Some(Box::new(error)),
            },
            Error::Interrupted { name } => Self::GivenUp { whose: name },
            Error::Reward { name, message, hint, source } => Self::Reward {
                name: name.clone(),
                message: message.clone(),
                // The whole error stays in the chain when it has a hint, so that a caller can find it.
                source: match hint {
                    Some(_) => Some(Box::new(Error::Reward { name, message, hint, source })),
                    None => source,
                },
            },
        }
    }
}

/// A specification with a caret under a character.
fn pointed(spec: &str, at: usize) -> String {
    // What acts on a terminal would move the caret off its column, so it is shown as one visible cell.
    let acts = |c: char| printable(c.encode_utf8(&mut [0; 4])).len() > c.len_utf8();
    let shown: String = spec.chars().map(|c| if acts(c) { '␣' } else { c }).collect();
    let before = spec.get(..at).unwrap_or(spec).chars().count();
    format!("  {shown}\n  {:before$}^", "")
}

/// A text in an error message: its beginning, quoted, with line breaks visible.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
