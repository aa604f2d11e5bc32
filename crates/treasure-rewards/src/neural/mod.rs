//! Rewards by networks on this machine: classifiers, autoregressive scorers, denoisers.

mod classifier;
mod nelbo;
mod scorer;

pub use classifier::ClassifierReward;
pub use nelbo::{NELBO_SAMPLES, NelboReward};
pub use scorer::ScorerReward;

use treasure_core::TokenId;
use treasure_models::{MaskedLm, Tokenizer};

use crate::{Detokenize, Error, Result};

/// A model's failure as a reward's.
pub(crate) fn failed(name: &str, message: &str, error: treasure_models::Error) -> Error {
    let hint = error.hint().map(str::to_string);
    let error = Error::reward(name, message).with_source(error);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

impl Detokenize for Tokenizer {
    fn decode(&self, ids: &[TokenId]) -> Result<String> {
        self.decode(ids).map_err(|error| failed("text", "cannot decode the tokens", error))
    }
}

impl Detokenize for MaskedLm {
    fn decode(&self, ids: &[TokenId]) -> Result<String> {
        let decoded = self.tokenizer().and_then(|tokenizer| tokenizer.decode(ids));
        decoded.map_err(|error| failed("text", "cannot decode the tokens", error))
    }
}
