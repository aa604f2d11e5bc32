//! Errors as the user reads them: the chain, a blank line, then what to do about it.
//!
//! Every command returns a [`Failure`]; `main` prints it on standard error, as JSON on standard output
//! under `--json`, and exits with 2. Fields of the request are named as the flags they came from.

use std::{error::Error, fmt};

use serde_json::{Value, json};
use treasure::{chain_of, flags};

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

    /// Arguments that are none: the message, then what the parser advises.
    pub fn of_arguments(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut parts = text.trim().split("\n\n").map(str::trim);
        let message = parts.next().unwrap_or_default().trim_start_matches("error: ");
        let advice: Vec<&str> = parts.collect();
        let failure = Self::new(message);
        if advice.is_empty() { failure } else { failure.hint(advice.join("\n")) }
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

    /// The messages in one line.
    pub fn line(&self) -> String {
        self.chain.join(": ")
    }

    /// The error as every command prints it under `--json`.
    pub fn to_json(&self) -> Value {
        json!({"error": {
            "message": self.chain.first(),
            "because": self.chain.get(1..).unwrap_or_default(),
            "hint": self.hint,
            "kind": self.kind,
        }})
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: &(dyn Error + 'static) = &error;
        // A failed experiment has put the hint of its cause together with how to go on.
        let hint = hint_of_experiment(error).or_else(|| treasure::hint_of(error));
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        let kind = causes.find_map(|error| error.downcast_ref::<treasure::Error>());
        Self {
            chain: chain_of(error).iter().map(|message| flags::in_message(message)).collect(),
            hint: hint.map(|hint| {
                flags::in_hint(&hint)
                    .replace("resume the run", "run the same command with --resume")
                    .replace("name a file of keys", "name a file of keys (--api-key-file)")
                    .replace("say that it is open to all", "say that it is open to all (--open)")
            }),
            kind: kind.map_or("request", |own| own.kind().name()),
        }
    }
}

#[cfg(feature = "eval")]
fn hint_of_experiment(error: &(dyn Error + 'static)) -> Option<String> {
    use treasure::Hint as _;
    Some(error.downcast_ref::<treasure_eval::Error>()?.hint()?.into_owned())
}

#[cfg(not(feature = "eval"))]
fn hint_of_experiment(_: &(dyn Error + 'static)) -> Option<String> {
    None
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, message) in self.chain.iter().enumerate() {
            match depth {
                0 => writeln!(f, "error: {message}")?,
                _ => writeln!(f, "  because: {}", message.replace('\n', "\n  "))?,
            }
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}\n")?;
        }
        Ok(())
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
