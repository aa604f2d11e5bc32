//! The options of the commands. Each is a spelling of a field of the request; nothing is decided here.

pub mod common;
pub mod request;

use std::num::NonZeroUsize;

/// A number of at least 1, refused with words that say so.
pub fn positive(text: &str) -> Result<NonZeroUsize, String> {
    text.parse::<NonZeroUsize>()
        .map_err(|_| format!("expected a whole number from 1 to {}, got {text:?}", usize::MAX))
}
