//! What can go wrong in a search, with the values that went wrong.

use std::borrow::Cow;

use crate::{Cost, Method, StopReason};

/// What a user can do about an error. Every error of these crates says it this way, in words that hold
/// at every door: options by their names, never by flags.
pub trait Hint: std::error::Error {
    /// What a user can do about it, if anything.
    fn hint(&self) -> Option<Cow<'_, str>>;
}

/// The result of a core operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the search, of a denoiser or of a reward.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option or an input outside its domain.
    #[error("{what}: expected {expected}, got {got}")]
    Invalid {
        /// The option or input.
        what: &'static str,
        /// What it should have been.
        expected: String,
        /// What it was.
        got: String,
    },
    /// There is no such method.
    #[error("method: expected one of {}, got {name:?}", Method::NAMES.join(", "))]
    NoMethod {
        /// What was asked for.
        name: String,
    },
    /// A method without such an option.
    #[error("{option}: method {method} has no use for it")]
    NoUse {
        /// The method.
        method: String,
        /// The option.
        option: String,
    },
    /// An option of a method that cannot have this value.
    #[error("{option}: {message}, got {got}")]
    Option {
        /// The option.
        option: String,
        /// What was given.
        got: serde_json::Value,
        /// What is wrong with it.
        message: String,
    },
    /// A search was stopped before any complete sequence existed.
    #[error(
        "search: stopped by {reason} after {steps} steps with {masks} masks left and nothing to show \
         (nfe {}, reward calls {})", cost.nfe, cost.reward_calls
    )]
    Stopped {
        /// What stopped it.
        reason: StopReason,
        /// Steps completed.
        steps: usize,
        /// Masks left.
        masks: usize,
        /// What was spent.
        cost: Cost,
    },
    /// A call that ended early because nobody waited for it any more ([`crate::given_up`]).
    #[error("{whose}: given up")]
    GivenUp {
        /// The model or reward that was asked.
        whose: String,
    },
    /// Weights from which nothing can be drawn.
    #[error("{what}: expected weights with a positive finite sum, got {got}")]
    Weights {
        /// Whose weights.
        what: String,
        /// The weights, as far as they fit a message.
        got: String,
    },
    /// A denoiser failed.
    #[error("denoiser: {message}")]
    Denoiser {
        /// What happened.
        message: String,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A reward failed.
    #[error("reward {name}: {message}")]
    Reward {
        /// The reward.
        name: String,
        /// What happened.
        message: String,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl Error {
    /// An option that cannot be read: what was expected of it, from the words of whoever read it.
    pub fn option(option: &str, got: serde_json::Value, why: &serde_json::Error) -> Self {
        Self::Option { option: option.into(), got, message: expected_by(&why.to_string()) }
    }
}

/// What was expected, without what came and without the names of types.
fn expected_by(message: &str) -> String {
    let expected = match message.rsplit_once(", expected ") {
        Some((came, expected)) if came.starts_with("invalid ") || came.starts_with("unknown ") => {
            expected
        }
        _ => match message.split_once("expected ") {
            Some((_, rest)) => rest.split_once(", got ").map_or(rest, |(expected, _)| expected),
            None if message.starts_with("data did not match") => "a value of another kind",
            None => return message.to_owned(),
        },
    };
    let plain = match expected {
        "f64" | "f32" => "a number",
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number from 0",
        "a boolean" => "true or false",
        other => other,
    };
    format!("expected {plain}")
}

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        let reason = match self {
            Self::Stopped { reason, .. } => reason,
            Self::Option { .. } => return Some(DEFAULT.into()),
            Self::Invalid { what, .. } => {
                let is_option = !Method::with_option(&what.replace(' ', "_")).is_empty();
                return is_option.then_some(DEFAULT.into());
            }
            _ => return None,
        };
        Some(Cow::Borrowed(match reason {
            StopReason::MaxNfe => "raise max_nfe: not even one prediction was made",
            StopReason::MaxRewardCalls => "raise max_reward_calls",
            StopReason::Deadline => "raise max_seconds",
            _ => "let it run a little longer",
        }))
    }
}

/// What can be done about any option.
const DEFAULT: &str = "leave it out for the default";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_expected_is_said_once_and_in_plain_words() {
        for (told, expected) in [
            ("order: expected uniform, confidence, got \"random\"", "expected uniform, confidence"),
            ("invalid type: string \"a, expected b\", expected f64", "expected a number"),
            ("invalid value: integer `-1`, expected usize", "expected a whole number from 0"),
            ("unknown variant `x`, expected `a` or `b`", "expected `a` or `b`"),
            ("width: expected at least 1, got 0", "expected at least 1"),
            ("missing field `a`", "missing field `a`"),
        ] {
            assert_eq!(expected_by(told), expected);
        }
    }

    #[test]
    fn every_wrong_option_has_a_hint() {
        let invalid = |what| Error::Invalid { what, expected: "more".into(), got: "less".into() };
        assert!(invalid("min p").hint().is_some() && invalid("prior").hint().is_some());
        assert!(invalid("selection").hint().is_none());
    }
}
