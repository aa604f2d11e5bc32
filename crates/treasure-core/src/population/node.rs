//! The nodes of a search: members of the population, their children, and what was read about them.

use std::sync::Arc;

use crate::{Encoded, MaskedSeq, TokenId};

/// Where the loop is.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The step's number, from 0.
    pub index: usize,
    /// How many steps there will be.
    pub steps: usize,
    /// Whether this step completes every sequence.
    pub last: bool,
}

/// What Feynman–Kac steering remembers about a particle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weight {
    /// The reward its potential was computed from, if any.
    pub reward: Option<f64>,
    /// The logarithm of the product of its potentials.
    pub log_product: f64,
    /// Its unnormalised log-weight since the last resampling.
    pub log_weight: f64,
}

/// A member of the population.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number in the trace.
    pub id: u64,
    /// Its slot: its rank in a tree, its number in a population.
    pub slot: usize,
    /// Its state.
    pub seq: Arc<MaskedSeq>,
    /// Its time τ.
    pub t: f64,
    /// The state and time it was proposed from.
    pub origin: Option<(Arc<MaskedSeq>, f64)>,
    /// Its forward pass, if one was made when it was valued.
    pub encoded: Option<Encoded>,
    /// Its value.
    pub value: Option<f64>,
    /// Its Feynman–Kac weight.
    pub weight: Weight,
}

/// A proposed child.
#[derive(Clone, Debug)]
pub struct Child {
    /// The index of its parent in the population.
    pub parent: usize,
    /// Its state.
    pub seq: Arc<MaskedSeq>,
    /// Its time τ.
    pub t: f64,
    /// Rank of its token, or its number among its parent's candidates.
    pub rank: usize,
    /// The position and token it revealed, if any.
    pub reveal: Option<(usize, TokenId)>,
    /// Further tokens revealed by the same step.
    pub also: Vec<(usize, TokenId)>,
    /// Its forward pass, if one was made to value it.
    pub encoded: Option<Encoded>,
}

/// What was read about a parent when it was expanded.
#[derive(Clone, Debug)]
pub struct Expanded {
    /// Its forward pass.
    pub encoded: Encoded,
    /// The likeliest token at each of its masks; empty unless the value asked for it.
    pub argmax: Vec<TokenId>,
}

/// The children of a population.
#[derive(Clone, Debug, Default)]
pub struct Proposals {
    /// All children, grouped by parent.
    pub children: Vec<Child>,
    /// One entry per parent.
    pub parents: Vec<Expanded>,
}
