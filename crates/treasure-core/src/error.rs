//! What can go wrong in a search, with the values that went wrong.

use crate::{Cost, StopReason};

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
