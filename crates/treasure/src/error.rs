//! One error for every door: what was expected, what came, why, and what to do about it.

use std::{borrow::Cow, error::Error as StdError, fmt};

use treasure_core::Hint;

/// The result of anything this crate does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong, for doors that answer by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request cannot be carried out as written.
    Request,
    /// A constraint that no text of the asked length can meet.
    Constraint,
    /// A model cannot be found, read or run.
    Model,
    /// A reward cannot be built or failed.
    Reward,
    /// The search itself failed.
    Search,
    /// It was stopped before there was any text.
    Stopped,
    /// A file or stream failed.
    Io,
}

impl ErrorKind {
    /// A word for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Constraint => "constraint",
            Self::Model => "model",
            Self::Reward => "reward",
            Self::Search => "search",
            Self::Stopped => "stopped",
            Self::Io => "io",
        }
    }
}

/// Something that went wrong.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), hint: None, source: None }
    }

    /// A request that cannot be carried out.
    pub fn request(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Request, message)
    }

    /// Says what can be done about it; a hint that is there stays.
    #[must_use]
    pub fn with_hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint.get_or_insert_with(|| hint.to_string());
        self
    }

    /// Says what was being done when it happened.
    #[must_use]
    pub fn context(self, message: impl fmt::Display) -> Self {
        Self {
            kind: self.kind,
            message: message.to_string(),
            hint: self.hint.clone(),
            source: Some(Box::new(self)),
        }
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The messages from the outermost to the cause, without repetition.
    pub fn chain(&self) -> Vec<String> {
        chain_of(self)
    }

    fn from_source<E: StdError + Send + Sync + 'static>(kind: ErrorKind, error: E) -> Self {
        let hint = hint_of(&error);
        let message = error.to_string();
        // The source's own message is ours; what lies behind it is the chain.
        Self { kind, message, hint, source: Some(Box::new(error)) }
    }
}

/// An error and what led to it, outermost first.
fn causes<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The messages of an error and of what led to it, outermost first, without repetition.
pub fn chain_of(error: &(dyn StdError + 'static)) -> Vec<String> {
    let mut chain: Vec<String> = Vec::new();
    for error in causes(error) {
        let message = error.to_string();
        if chain.last().is_none_or(|last| !last.contains(&message)) {
            chain.push(message);
        }
    }
    chain
}

/// The innermost hint of an error of our own crates: it knows most. Where there is none, what holds for
/// every error of its kind.
pub fn hint_of(error: &(dyn StdError + 'static)) -> Option<String> {
    let crates = [
        said::<treasure_core::Error>,
        said::<treasure_text::Error>,
        said::<treasure_models::Error>,
        said::<treasure_rewards::Error>,
        said::<Error>,
    ];
    let own = causes(error).filter_map(|error| crates.iter().find_map(|said| said(error)));
    own.last().or_else(|| general(error).map(str::to_owned))
}

/// The hint of an error if it is an `E`.
fn said<E: Hint + 'static>(error: &(dyn StdError + 'static)) -> Option<String> {
    error.downcast_ref::<E>()?.hint().map(Cow::into_owned)
}

/// What can be done about any error of a kind.
fn general(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let own = causes(error).find_map(|error| error.downcast_ref::<Error>())?;
    let option = own.message.split_once(": ").map_or("", |(option, _)| option);
    match own.kind {
        ErrorKind::Request if option == "template" => {
            Some("write a hole as [MASK] for one token or [MASK:5] for five")
        }
        ErrorKind::Request | ErrorKind::Model
            if crate::is_known(option) && !STARTS.contains(&option) =>
        {
            Some("leave it out for the default")
        }
        ErrorKind::Reward => Some("docs/rewards.md says what each reward needs"),
        ErrorKind::Model => Some("docs/checkpoints.md says which models can be read"),
        ErrorKind::Io => {
            Some("see that the path is right and that the file may be read or written")
        }
        _ => None,
    }
}

/// Fields without which there is nothing to do.
const STARTS: [&str; 5] = ["messages", "prompt", "reward", "template", "text"];

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        self.hint.as_deref().map(Cow::Borrowed)
    }
}

impl fmt::Display for Error {
    /// The message, line by line; what a stranger wrote into it acts on no terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&treasure_text::printable_lines(&self.message))
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

impl From<treasure_core::Error> for Error {
    fn from(error: treasure_core::Error) -> Self {
        use treasure_core::Error as Core;
        let kind = match &error {
            Core::Invalid { .. }
            | Core::NoMethod { .. }
            | Core::NoUse { .. }
            | Core::Option { .. } => ErrorKind::Request,
            Core::Denoiser { .. } => ErrorKind::Model,
            Core::Reward { .. } => ErrorKind::Reward,
            Core::Stopped { .. } => ErrorKind::Stopped,
            _ => ErrorKind::Search,
        };
        Self::from_source(kind, error)
    }
}

impl From<treasure_models::Error> for Error {
    fn from(error: treasure_models::Error) -> Self {
        Self::from_source(ErrorKind::Model, error)
    }
}

impl From<treasure_text::Error> for Error {
    fn from(error: treasure_text::Error) -> Self {
        use treasure_text::Error as Text;
        let kind = match error {
            Text::Damaged(_) => ErrorKind::Model,
            Text::TooShort { .. }
            | Text::TooLong { .. }
            | Text::NoCompletion { .. }
            | Text::Unspellable { .. } => ErrorKind::Constraint,
            _ => ErrorKind::Request,
        };
        Self::from_source(kind, error)
    }
}

impl From<treasure_rewards::Error> for Error {
    fn from(error: treasure_rewards::Error) -> Self {
        let kind = match error {
            treasure_rewards::Error::Spec { .. } => ErrorKind::Request,
            _ => ErrorKind::Reward,
        };
        Self::from_source(kind, error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::from_source(ErrorKind::Io, error)
    }
}
