//! Errors as the user reads them: the chain, a blank line, then what to do about it.
//!
//! Every command returns a [`Failure`]; `main` prints it on standard error and exits with 2.

use std::{error::Error, fmt};

/// An error on its way to the user.
#[derive(Debug)]
pub struct Failure {
    /// Messages, outermost first.
    chain: Vec<String>,
    hint: Option<String>,
}

/// The result of anything a command does.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// An error of our own.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { chain: vec![message.to_string()], hint: None }
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
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut chain = Vec::new();
        let (mut hint, mut settled) = (None, false);
        let mut next: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(error) = next {
            let message = error.to_string();
            // Some libraries repeat their source in their own message; say it once.
            if chain.last().is_none_or(|last: &String| !last.contains(&message)) {
                chain.push(message);
            }
            if !settled && let Some(found) = hint_of(error) {
                hint = Some(found);
                // A failed experiment has put the hint of its cause together with how to go on.
                settled = error.is::<treasure_eval::Error>();
            }
            next = error.source();
        }
        Self { chain, hint }
    }
}

/// The hint that an error of one of our own crates carries.
fn hint_of(error: &(dyn Error + 'static)) -> Option<String> {
    let hint = None
        .or_else(|| error.downcast_ref::<treasure_models::Error>()?.hint())
        .or_else(|| error.downcast_ref::<treasure_rewards::Error>()?.hint())
        .or_else(|| error.downcast_ref::<treasure_rewards::SpecError>()?.hint.as_deref());
    hint.map(str::to_string).or_else(|| error.downcast_ref::<treasure_eval::Error>()?.hint())
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
}
