//! `length:40..60`: 1 if the text has that many words, less the further it is away.
//!
//! Below: words / 40. Above: 60 / words. So each word towards the range counts.

use std::sync::Arc;

use super::{Fault, Scheme, one_by_one};
use crate::{Result, spec::Style};

pub(super) const SCHEME: Scheme = Scheme {
    name: "length",
    style: Style::Whole,
    wants: "a range of words such as 40..60",
    missing: None,
    check: |arguments| range(&arguments[0]).map(drop),
    build: |name, arguments| {
        let (min, max) = range(&arguments[0]).map_err(|fault| fault.error(name))?;
        Ok(Arc::new(Length::new(name, min, max)))
    },
};

/// `40..60`, `40..=60`, `40..`, `..60` or `40`.
fn range(text: &str) -> Result<(usize, usize), Fault> {
    let number = |text: &str, at: usize, missing: usize| match text.trim() {
        "" => Ok(missing),
        digits => digits.parse().map_err(|_| {
            Fault::new(at, format!("expected a whole number of words, got {digits:?}"))
        }),
    };
    let (min, max) = match text.split_once("..") {
        None => {
            let exact = number(text, 0, 0)?;
            (exact, exact)
        }
        Some((low, high)) => {
            let (digits, at) = match high.strip_prefix('=') {
                Some(high) => (high, low.len() + 3),
                None => (high, low.len() + 2),
            };
            (number(low, 0, 0)?, number(digits, at, usize::MAX)?)
        }
    };
    if min > max {
        return Err(Fault::new(0, format!("expected the smaller number first, got {text}")));
    }
    Ok((min, max))
}

/// A range of words as a reward.
#[derive(Debug)]
pub struct Length {
    name: String,
    min: usize,
    max: usize,
}

impl Length {
    /// A reward called `name` for texts of `min` to `max` words, both included.
    pub fn new(name: impl Into<String>, min: usize, max: usize) -> Self {
        Self { name: name.into(), min, max }
    }

    fn of(&self, text: &str) -> f64 {
        let words = text.split_whitespace().count();
        if words < self.min {
            words as f64 / self.min as f64
        } else if words > self.max {
            self.max as f64 / words as f64
        } else {
            1.0
        }
    }
}

one_by_one!(Length);
