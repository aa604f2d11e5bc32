//! The search: masked sequences, schedules, proposals, values, selections and methods.
//!
//! This crate knows no model, no text, no file and no clock of its own. A search method sees a
//! [`Denoiser`] and a [`Reward`] only through a `Problem`, so costs cannot be miscounted.

mod bans;
mod denoiser;
mod error;
mod key;
mod reward;
mod sequence;

pub use bans::Bans;
pub use denoiser::{Answer, At, Candidate, Denoiser, Draw, Encoding, Question, State, Want};
pub use error::{Error, Result};
pub use key::Key;
pub use reward::{Reward, View};
pub use sequence::{MaskedSeq, TokenId};
