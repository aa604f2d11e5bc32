//! `length:40..60`: 1 if the text has that many words, less the further it is away.
//!
//! Below: words / 40. Above: 60 / words. So each word towards the range counts.

use crate::{Range, Result, TextReward};

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

impl TextReward for Length {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(texts.iter().map(|text| self.of(text)).collect())
    }

    fn range(&self) -> Range {
        Range::UNIT
    }
}
