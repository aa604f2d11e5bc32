//! The options of the commands. Each is a spelling of a field of the request; nothing is decided here.

mod common;
mod request;
mod sizes;

use std::{num::NonZeroUsize, str::FromStr};

pub use common::Common;
pub use request::{Asks, Flags};
pub use sizes::Sizes;
use treasure::Bound;

/// A whole number.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0, got {text:?}"))
}

/// A whole number of at least 1.
pub fn positive(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("expected a whole number from 1, got {text:?}"))
}

/// A number.
pub fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("expected a number, got {text:?}"))
}

/// A time in seconds, within the bound of a deadline.
pub fn seconds(text: &str) -> Result<f64, String> {
    let most = Bound::of("max_seconds").map_or(f64::MAX, |bound| bound.most as f64);
    let number = text.parse::<f64>().ok().filter(|seconds| (0.0..=most).contains(seconds));
    number.ok_or_else(|| format!("expected seconds from 0 to {most}, got {text:?}"))
}

/// A number from 1 to the bound of an option of the request or of an experiment.
pub fn count(
    option: &'static str,
) -> impl Fn(&str) -> Result<NonZeroUsize, String> + Clone + Send + Sync + 'static {
    move |text| {
        let most = Bound::of(option).map_or(usize::MAX, |bound| bound.most as usize);
        let number = text.parse::<NonZeroUsize>().ok().filter(|number| number.get() <= most);
        number.ok_or_else(|| format!("expected a whole number from 1 to {most}, got {text:?}"))
    }
}
