//! Errors as the user reads them: the chain, a blank line, then what to do about it.
//!
//! Every command returns a [`Failure`]; `main` prints it on standard error, as JSON on standard output
//! under `--json`, and exits with 2. Fields of the request are named as the flags they came from.

use std::{error::Error, fmt};

use serde_json::{Value, json};
use treasure::{FIELDS, Method};

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

/// A message that begins with a field of the request, with that field as its flag.
fn with_flag(message: &str) -> String {
    let Some((name, rest)) = message.split_once(':') else { return message.to_owned() };
    let known = FIELDS.contains(&name) || !Method::with_option(name).is_empty();
    match known && rest.starts_with(' ') && !matches!(name, "reward" | "template" | "prompt") {
        true => format!("--{}:{rest}", name.replace('_', "-")),
        false => message.to_owned(),
    }
}

/// A hint that names options of the request, with those as their flags.
fn hint_with_flags(hint: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let option =
            bare.contains('_') && (FIELDS.contains(&bare) || !Method::with_option(bare).is_empty());
        match option {
            true => word.replace(bare, &format!("--{}", bare.replace('_', "-"))),
            false => word.to_owned(),
        }
    };
    hint.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut chain: Vec<String> = Vec::new();
        let (mut hint, mut kind, mut settled) = (None, "request", false);
        let mut next: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(error) = next {
            let message = with_flag(&error.to_string());
            if chain.last().is_none_or(|last| !last.contains(&message)) {
                chain.push(message);
            }
            if let Some(ours) = error.downcast_ref::<treasure::Error>() {
                kind = ours.kind().name();
            }
            if !settled && let Some(found) = hint_of(error) {
                hint = Some(hint_with_flags(&found));
                // A failed experiment has put the hint of its cause together with how to go on.
                settled = is_experiment(error);
            }
            next = error.source();
        }
        Self { chain, hint, kind }
    }
}

#[cfg(feature = "eval")]
fn is_experiment(error: &(dyn Error + 'static)) -> bool {
    error.is::<treasure_eval::Error>()
}

#[cfg(not(feature = "eval"))]
fn is_experiment(_: &(dyn Error + 'static)) -> bool {
    false
}

/// The hint that an error of one of our own crates carries.
fn hint_of(error: &(dyn Error + 'static)) -> Option<String> {
    let hint = None
        .or_else(|| error.downcast_ref::<treasure::Error>()?.hint())
        .or_else(|| error.downcast_ref::<treasure::models::Error>()?.hint())
        .or_else(|| error.downcast_ref::<treasure::rewards::Error>()?.hint())
        .or_else(|| error.downcast_ref::<treasure::rewards::SpecError>()?.hint.as_deref());
    let hint = hint.map(str::to_string);
    #[cfg(feature = "eval")]
    let hint = hint.or_else(|| error.downcast_ref::<treasure_eval::Error>()?.hint());
    hint
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_comes_first_then_a_blank_line_then_the_hint() {
        let failure = Failure::new("no such file").context("prompts.jsonl").hint("check the path");
        assert_eq!(
            failure.to_string(),
            "error: prompts.jsonl\n  because: no such file\n\nhint: check the path\n"
        );
    }

    #[test]
    fn the_innermost_hint_stays() {
        let failure = Failure::new("x").hint("inner").hint("outer");
        assert!(failure.to_string().ends_with("hint: inner\n"));
    }

    #[test]
    fn fields_of_the_request_are_named_as_flags() {
        assert_eq!(with_flag("beam_width: expected a number"), "--beam-width: expected a number");
        assert_eq!(with_flag("reward sentiment: failed"), "reward sentiment: failed");
        assert_eq!(hint_with_flags("raise max_nfe or lower it"), "raise --max-nfe or lower it");
    }
}
