//! Errors as the user reads them: the chain, a blank line, then what to do about it.
//!
//! Every command returns a [`Failure`]; `main` prints it on standard error, as JSON on standard output
//! under `--json`, and exits with 2. Fields of the request are named as the flags they came from.

use std::{error::Error, fmt};

use clap::error::{ContextKind as Told, ErrorKind};
use serde_json::{Value, json};
#[cfg(feature = "eval")]
use treasure::Hint as _;
use treasure::chain_of;

use crate::wording;

/// An error on its way to the user.
#[derive(Debug)]
pub struct Failure {
    /// Messages, outermost first.
    chain: Vec<String>,
    hint: Option<String>,
    kind: &'static str,
}

/// The result of anything a command does.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// An error of our own.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { chain: vec![message.to_string()], hint: None, kind: "request" }
    }

    /// Arguments that `command` cannot be asked for, in our words.
    pub fn of_arguments(error: &clap::Error, command: &str) -> Self {
        use ErrorKind as Kind;
        let told = |what| error.get(what).map(ToString::to_string).unwrap_or_default();
        let (whole, got) = (told(Told::InvalidArg), told(Told::InvalidValue));
        let arg = whole.split(" <").next().unwrap_or(&whole);
        let refined = command.ends_with(" refine") && ["--length", "--min-length"].contains(&arg);
        let message = match error.kind() {
            Kind::InvalidValue if got.is_empty() => format!("{arg}: expected a value, got none"),
            Kind::InvalidValue => {
                format!("{arg}: expected one of {}, got {got:?}", told(Told::ValidValue))
            }
            Kind::ValueValidation => {
                format!("{arg}: {}", error.source().map(ToString::to_string).unwrap_or_default())
            }
            Kind::UnknownArgument if refined => format!("{arg}: a finished text says it by itself"),
            Kind::UnknownArgument => format!("{arg}: there is no such option or argument here"),
            Kind::InvalidSubcommand => {
                format!("{}: no such command", told(Told::InvalidSubcommand))
            }
            Kind::MissingRequiredArgument => format!("expected {whole}, got none"),
            Kind::ArgumentConflict => {
                format!("{arg}: cannot stand beside {}", told(Told::PriorArg))
            }
            kind => kind.to_string(),
        };
        let meant = [Told::SuggestedArg, Told::SuggestedValue, Told::SuggestedSubcommand].map(told);
        let lists = format!("`{command} --help` lists what there is");
        Self::new(message).hint(match (error.kind(), meant.iter().find(|one| !one.is_empty())) {
            _ if refined => "leave it out: as many tokens are written as the text has".into(),
            (_, Some(meant)) => format!("did you mean `{meant}`?"),
            (Kind::ValueValidation, _) => format!("`{command} --help` says what it takes"),
            (Kind::ArgumentConflict, _) => "leave one of them out".into(),
            (Kind::MissingRequiredArgument, _) => format!("add it; `{command} --help` shows how"),
            (Kind::UnknownArgument, _) => {
                format!("{lists}; a text that begins with a dash comes after --")
            }
            _ => lists,
        })
    }

    /// Says what was being done when it happened.
    #[must_use]
    pub fn context(mut self, message: impl fmt::Display) -> Self {
        self.chain.insert(0, message.to_string());
        self
    }

    /// Says what the user can do. The innermost hint, which knows most, stays.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint.get_or_insert_with(|| hint.to_string());
        self
    }

    /// What the user can do: every error says something.
    fn advice(&self) -> &str {
        self.hint.as_deref().unwrap_or("`treasure COMMAND --help` lists what there is")
    }

    /// The messages in one line.
    pub fn line(&self) -> String {
        self.chain.join(": ")
    }

    /// The error as every command prints it under `--json`.
    pub fn to_json(&self) -> Value {
        json!({"error": {
            "message": self.chain.first(),
            "because": self.chain.get(1..).unwrap_or_default(),
            "hint": self.advice(),
            "kind": self.kind,
        }})
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: &(dyn Error + 'static) = &error;
        let hint = None;
        // A failed experiment has put the hint of its cause together with how to go on.
        #[cfg(feature = "eval")]
        let hint = hint
            .or_else(|| Some(error.downcast_ref::<treasure_eval::Error>()?.hint()?.into_owned()));
        let hint: Option<String> = hint.or_else(|| treasure::hint_of(error));
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        let kind = causes.find_map(|error| error.downcast_ref::<treasure::Error>());
        Self {
            chain: chain_of(error).iter().map(|message| wording::in_message(message)).collect(),
            hint: hint.map(|hint| wording::in_hint(&hint)),
            kind: kind.map_or("request", |own| own.kind().name()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, message) in self.chain.iter().enumerate() {
            match depth {
                0 => writeln!(f, "error: {message}")?,
                _ => writeln!(f, "  because: {}", message.replace('\n', "\n  "))?,
            }
        }
        write!(f, "\nhint: {}\n", self.advice())
    }
}

/// Adds context to results.
pub trait OrFail<T> {
    /// Says what was being done when it failed.
    fn context<M: fmt::Display>(self, message: impl FnOnce() -> M) -> Outcome<T>;
}

impl<T, E: Into<Failure>> OrFail<T> for Result<T, E> {
    fn context<M: fmt::Display>(self, message: impl FnOnce() -> M) -> Outcome<T> {
        self.map_err(|error| error.into().context(message()))
    }
}
