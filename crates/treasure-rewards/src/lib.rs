//! Rewards: rules, classifiers, scorers, remote judges, and their composition.
//!
//! A user writes a [`Spec`]; [`Rewards::build`] makes a [`Composite`] of it, which scores text and
//! explains itself; a [`Pipeline`] puts it behind a prompt or template, as the `Reward` on token
//! sequences that a search asks. One's own reward is a [`TextReward`].

mod build;
mod cache;
mod compose;
mod error;
#[cfg(feature = "exec")]
mod exec;
mod expr;
mod interrupt;
mod labels;
pub mod metrics;
pub mod neural;
mod options;
mod pipeline;
mod range;
#[cfg(feature = "remote")]
pub mod remote;
mod reward;
pub mod rules;
pub mod spec;
mod window;

pub use build::Rewards;
pub use cache::{RUN_CACHE_BYTES, RunCache};
pub use compose::{Breakdown, Composite};
pub use error::{Error, Result};
#[cfg(feature = "exec")]
pub use exec::Exec;
pub use interrupt::Interrupt;
pub use options::{RemoteOptions, RewardOptions};
pub use pipeline::{Pipeline, TextOptions};
pub use range::Range;
pub use reward::{Explained, TextReward, Window};
pub use spec::Spec;

/// The examples of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-reward.md")]
struct Guide;
