//! Rewards: rules, classifiers, scorers, remote judges, and their composition.
//!
//! A user writes a [`Spec`]; a [`Composite`] made of it scores text and
//! explains itself; a [`Pipeline`] puts it behind a prompt or template, as the `Reward` on token
//! sequences that a search asks. One's own reward is a [`TextReward`].

mod cache;
mod cleanup;
mod compose;
mod error;
mod judge;
mod labels;
mod layout;
pub mod metrics;
mod pipeline;
pub mod remote;
mod reward;
pub mod rules;
pub mod spec;
mod window;

pub use cache::{RUN_CACHE_BYTES, RunCache};
pub use cleanup::clean_up_spaces;
pub use compose::{Breakdown, Composite};
pub use error::{Error, Result};
pub use judge::{HeldOut, Verdict};
pub use layout::{Detokenize, Layout, Piece, Rendered};
pub use pipeline::{Pipeline, TextOptions};
pub use reward::{Explained, Range, TextReward, Window};
pub use spec::{Spec, SpecError};
