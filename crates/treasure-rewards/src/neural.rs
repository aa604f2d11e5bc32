//! Rewards by networks on this machine: classifiers, autoregressive scorers, denoisers.

mod classifier;
mod nelbo;
mod scorer;

pub use classifier::ClassifierReward;
pub use nelbo::{NELBO_SAMPLES, NelboReward};
pub use scorer::ScorerReward;

use treasure_core::Hint as _;

use crate::Error;

/// Texts handed to a network at once. It makes its own portions; few and large batches keep all threads busy
/// and let more texts share a prefix.
pub(crate) const BATCH: usize = 1024;

/// Whether a text is too short to reach the window, without tokenising it: a token takes a byte or more. A
/// guess that is wrong costs nothing but a chance to find two texts equal, since networks cut what is too long.
pub(crate) fn surely_fits(text: &str, max_tokens: usize) -> bool {
    const AROUND: usize = 8; // special tokens, a space put in front
    text.len() + AROUND < max_tokens
}

/// A model's failure as a reward's.
pub(crate) fn failed(name: &str, message: &str, error: treasure_models::Error) -> Error {
    if matches!(error, treasure_models::Error::GivenUp(_)) {
        return Error::Interrupted { name: name.into() };
    }
    let hint = error.hint().map(|hint| hint.into_owned());
    let error = Error::reward(name, message).with_source(error);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
