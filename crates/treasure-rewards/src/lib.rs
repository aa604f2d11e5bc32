//! Rewards: rules, classifiers, scorers, remote judges, and their composition.
//!
//! A user writes a [`Spec`]; [`Rewards::build`] makes a [`Composite`] of it, which scores text and
//! explains itself; a [`Pipeline`] reads the sequences of a prompt or template for it, so that a search can
//! ask it. One's own reward is a [`TextReward`].

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
pub use reward::{Explained, TextReward, Window};
pub use spec::Spec;
pub use treasure_core::Range;

/// The examples of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-reward.md")]
struct Guide;
