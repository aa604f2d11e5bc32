//! The numbers a reward promises to give; the upper end is a bound that a search may prune by.

use std::fmt;

/// The numbers a reward can give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// No number is below this.
    pub low: f64,
    /// No number is above this.
    pub high: f64,
}

/// How far rounding may carry a number out of its range, relative to the end if that is above 1.
const ROUNDING: f64 = 1e-6;

impl Range {
    /// Any number.
    pub const ANY: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };
    /// From 0 to 1, as rules, probabilities and accuracies.
    pub const UNIT: Self = Self { low: 0.0, high: 1.0 };
    /// At most 0, as log-probabilities.
    pub const AT_MOST_ZERO: Self = Self::at_most(0.0);

    /// Any number up to `high`.
    pub const fn at_most(high: f64) -> Self {
        Self { low: f64::NEG_INFINITY, high }
    }

    /// Whether every number lies in [0, 1].
    pub fn is_unit(&self) -> bool {
        self.low >= 0.0 && self.high <= 1.0
    }

    /// Whether `number` lies in it.
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// The number no value exceeds, if there is one.
    pub fn upper_bound(&self) -> Option<f64> {
        self.high.is_finite().then_some(self.high)
    }

    /// `number` if it is finite and lies in the range; the range's end if only rounding carried it out.
    pub fn admit(&self, number: f64) -> Option<f64> {
        let inside = number.clamp(self.low, self.high.max(self.low));
        let slack = ROUNDING * inside.abs().max(1.0);
        (number.is_finite() && (number - inside).abs() <= slack).then_some(inside)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.low.is_finite(), self.high.is_finite()) {
            (true, true) => write!(f, "a number in [{}, {}]", self.low, self.high),
            (true, false) => write!(f, "a number of at least {}", self.low),
            (false, true) => write!(f, "a number of at most {}", self.high),
            (false, false) => f.write_str("a number"),
        }
    }
}
