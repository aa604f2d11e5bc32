//! Option groups that several commands share, named as in the command-line contract.

pub mod common;
pub mod model;
pub mod search;

use std::num::NonZeroUsize;

/// Reads a count of at least 1.
pub fn positive(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("expected a whole number of at least 1, got {text:?}"))
}
