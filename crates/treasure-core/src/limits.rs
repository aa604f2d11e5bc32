//! Budgets, and how a search that meets one stops.
//!
//! Guarantee: a limit is checked before the work it limits, so it is never exceeded.

use std::{fmt, sync::atomic::AtomicBool, time::Duration};

use serde::{Deserialize, Serialize};

use crate::Error;

/// A clock handed in: the search has none of its own.
pub trait Clock: Send + Sync {
    /// The time since some fixed moment; never falls.
    fn now(&self) -> Duration;
}

/// A moment on a clock after which no new work begins.
#[derive(Clone, Copy)]
pub struct Deadline<'a> {
    /// The clock.
    pub clock: &'a dyn Clock,
    /// The moment, on that clock.
    pub at: Duration,
}

impl fmt::Debug for Deadline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deadline({:?})", self.at)
    }
}

/// What a search may spend. The default is without limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// Sequences that may be run through the denoiser.
    pub max_nfe: Option<u64>,
    /// Views that may be scored by the reward.
    pub max_reward_calls: Option<u64>,
    /// No forward pass and no scoring begins after this moment.
    pub deadline: Option<Deadline<'a>>,
    /// Stop as soon as a complete sequence has at least this reward.
    pub target_reward: Option<f64>,
    /// Stop as soon as this is set; looked at between portions of a step and, by whoever asks
    /// [`crate::given_up`], inside of a call.
    pub cancel: Option<&'a AtomicBool>,
}

/// Why a search ended before its last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The next forward passes would exceed `max_nfe`.
    MaxNfe,
    /// The next scores would exceed `max_reward_calls`.
    MaxRewardCalls,
    /// The deadline has passed.
    Deadline,
    /// A complete sequence reached `target_reward`.
    Target,
    /// Predictions agreed for as many steps as the method asks for.
    Settled,
    /// The observer said `Break`.
    Observer,
    /// The run was cancelled.
    Cancelled,
    /// The caller drove it no further.
    Caller,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxNfe => "the limit of model evaluations",
            Self::MaxRewardCalls => "the limit of reward calls",
            Self::Deadline => "the deadline",
            Self::Target => "the target reward",
            Self::Settled => "predictions that agree",
            Self::Observer => "the observer",
            Self::Cancelled => "cancellation",
            Self::Caller => "the caller",
        })
    }
}

/// Why a step did not finish: a clean stop, or a failure.
#[derive(Debug)]
pub enum Halt {
    /// A budget, the target or the observer ended the search.
    Stop(StopReason),
    /// Something broke.
    Fail(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

/// The result of work that a budget may end.
pub type Flow<T> = std::result::Result<T, Halt>;
