//! An expression over rewards: one set of rules, evaluated on their numbers or on the ranges they promise.
//!
//! Guarantee: evaluated on ranges, an expression gives a range that holds every value it can have on numbers
//! of those ranges, in floating point too, since every operation here rounds monotonically.

use crate::{
    Range,
    spec::{Kind, Leaf, Node},
};

/// What an expression can be evaluated on.
pub(crate) trait Quantity: Copy {
    /// Applies a function that never falls as its argument grows.
    fn rising(self, function: impl Fn(f64) -> f64) -> Self;
    /// Applies a function that never rises.
    fn falling(self, function: impl Fn(f64) -> f64) -> Self;
    /// Applies a function of several numbers that never falls as one of them grows.
    fn joined(parts: &[Self], function: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Self;
}

impl Quantity for f64 {
    fn rising(self, function: impl Fn(f64) -> f64) -> Self {
        function(self)
    }

    fn falling(self, function: impl Fn(f64) -> f64) -> Self {
        function(self)
    }

    fn joined(parts: &[Self], function: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Self {
        function(&mut parts.iter().copied())
    }
}

impl Quantity for Range {
    fn rising(self, function: impl Fn(f64) -> f64) -> Self {
        Self { low: function(self.low), high: function(self.high) }
    }

    fn falling(self, function: impl Fn(f64) -> f64) -> Self {
        Self { low: function(self.high), high: function(self.low) }
    }

    fn joined(parts: &[Self], function: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Self {
        Self {
            low: function(&mut parts.iter().map(|part| part.low)),
            high: function(&mut parts.iter().map(|part| part.high)),
        }
    }
}

/// An expression over rewards, which are numbered.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Leaf(usize),
    Sum(Vec<Expr>),
    Weighted(f64, Box<Expr>),
    Min(Vec<Expr>),
    Product(Vec<Expr>),
    AtLeast(Box<Expr>, f64),
    AtMost(Box<Expr>, f64),
    Step(Box<Expr>, f64),
}

impl Expr {
    /// The expression of a node, whose rewards `place` numbers.
    pub fn new<'a>(node: &'a Node, place: &mut impl FnMut(&'a str, &'a Leaf) -> usize) -> Self {
        match &node.kind {
            Kind::Leaf(leaf) => Self::Leaf(place(&node.written, leaf)),
            Kind::Sum(parts) => {
                Self::Sum(parts.iter().map(|part| Self::new(part, place)).collect())
            }
            Kind::Min(parts) => {
                Self::Min(parts.iter().map(|part| Self::new(part, place)).collect())
            }
            Kind::Product(parts) => {
                Self::Product(parts.iter().map(|part| Self::new(part, place)).collect())
            }
            Kind::Weighted(weight, part) => {
                Self::Weighted(*weight, Box::new(Self::new(part, place)))
            }
            Kind::AtLeast(part, threshold) => {
                Self::AtLeast(Box::new(Self::new(part, place)), *threshold)
            }
            Kind::AtMost(part, threshold) => {
                Self::AtMost(Box::new(Self::new(part, place)), *threshold)
            }
            Kind::Step(part, threshold) => Self::Step(Box::new(Self::new(part, place)), *threshold),
        }
    }

    /// Its value where reward `n` has `leaves[n]`.
    pub fn of<Q: Quantity>(&self, leaves: &[Q]) -> Q {
        let all = |parts: &[Self]| parts.iter().map(|part| part.of(leaves)).collect::<Vec<Q>>();
        match self {
            Self::Leaf(index) => leaves[*index],
            Self::Sum(parts) => Q::joined(&all(parts), |parts| parts.sum()),
            Self::Min(parts) => Q::joined(&all(parts), |parts| parts.fold(f64::INFINITY, f64::min)),
            // Of parts within [0, 1], or a larger one could make it smaller.
            Self::Product(parts) => Q::joined(&all(parts), |parts| parts.product()),
            Self::Weighted(weight, part) => {
                // 0 × ∞ is no number, but 0 times any reward is 0.
                let times = |end: f64| if *weight == 0.0 { 0.0 } else { weight * end };
                let part = part.of(leaves);
                if *weight < 0.0 { part.falling(times) } else { part.rising(times) }
            }
            Self::AtLeast(part, threshold) => {
                part.of(leaves).rising(|value| (value - threshold).min(0.0))
            }
            Self::AtMost(part, threshold) => {
                part.of(leaves).falling(|value| (threshold - value).min(0.0))
            }
            Self::Step(part, threshold) => {
                part.of(leaves).rising(|value| f64::from(value >= *threshold))
            }
        }
    }

    /// The rewards it grows with, as often as it names them.
    pub fn rising_leaves(&self) -> Vec<usize> {
        match self {
            Self::Leaf(index) => vec![*index],
            Self::Sum(parts) | Self::Min(parts) | Self::Product(parts) => {
                parts.iter().flat_map(Self::rising_leaves).collect()
            }
            Self::Weighted(weight, part) if *weight > 0.0 => part.rising_leaves(),
            Self::AtLeast(part, _) | Self::Step(part, _) => part.rising_leaves(),
            Self::Weighted(..) | Self::AtMost(..) => Vec::new(),
        }
    }
}
