//! The nodes of a search: members of the population, their children, and what was read about them.

use std::sync::Arc;

use crate::{Answer, Encoded, MaskedSeq, Prediction, TokenId};

/// What Feynman–Kac steering remembers about a particle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weight {
    /// The reward its potential was computed from, if any.
    pub reward: Option<f64>,
    /// The logarithm of the product of its potentials.
    pub log_product: f64,
    /// Its unnormalised log-weight since the last resampling.
    pub log_weight: f64,
    /// The λ that its reward was last weighed with, where λ rises.
    pub lambda: f64,
}

/// What a scored child is worth: its reward, and the value it is compared by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// The reward alone.
    pub reward: f64,
    /// The reward with what the tree's taste adds to it.
    pub value: f64,
}

impl Worth {
    /// A reward that is compared as it is.
    pub fn plain(reward: f64) -> Self {
        Self { reward, value: reward }
    }
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
    /// What it is worth, if the step that made it computed values.
    pub worth: Option<Worth>,
    /// log p of the tokens committed on the way to it, each given its parent; what was drawn counts 0.
    pub log_p: f64,
    /// Its Feynman–Kac weight.
    pub weight: Weight,
    /// How likely each token was when it was placed, where the sampler remembers it.
    pub placed: Option<Arc<[f64]>>,
    /// Whether all texts scored on the way to it, its siblings and theirs, earned the same.
    pub even: bool,
}

impl Node {
    /// A copy of a start state.
    pub fn start(id: u64, slot: usize, seq: Arc<MaskedSeq>) -> Self {
        Self {
            id,
            slot,
            seq,
            t: 1.0,
            origin: None,
            encoded: None,
            worth: None,
            log_p: 0.0,
            weight: Weight::default(),
            placed: None,
            even: true,
        }
    }
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
    /// When its own prediction would be asked for, if the step needs to know.
    pub next_t: Option<f64>,
    /// Rank of its token, or its number among its parent's candidates.
    pub rank: usize,
    /// The position and token it revealed, if any.
    pub reveal: Option<(usize, TokenId)>,
    /// Further tokens revealed by the same step.
    pub also: Vec<(usize, TokenId)>,
    /// The positions that the step masked again.
    pub remasked: Vec<usize>,
    /// log of the share of its parent's law that it stands for among its siblings.
    pub log_mass: f64,
    /// The complete sequence it was taken from, if it was.
    pub completion: Option<Vec<TokenId>>,
    /// How likely each token was when it was placed, where the sampler remembers it.
    pub placed: Option<Arc<[f64]>>,
    /// log p of the tokens committed on the way to it, where they were ranked and not drawn.
    pub log_p: f64,
    /// Its forward pass, if one was made to value it.
    pub encoded: Option<Encoded>,
}

impl Child {
    /// The tokens that the step placed.
    pub fn placements(&self) -> Vec<(usize, TokenId)> {
        self.reveal.iter().chain(&self.also).copied().collect()
    }

    /// A parent that is carried on as it is, as its only child.
    pub fn carried(parent: usize, node: &Node, t: f64) -> Self {
        Self {
            parent,
            seq: node.seq.clone(),
            t,
            next_t: None,
            rank: 0,
            reveal: None,
            also: Vec::new(),
            remasked: Vec::new(),
            log_mass: 0.0,
            completion: None,
            placed: node.placed.clone(),
            log_p: node.log_p,
            encoded: None,
        }
    }
}

/// What was read about a parent when it was expanded.
#[derive(Clone, Debug)]
pub struct Expanded {
    /// Its forward pass.
    pub encoded: Encoded,
    /// The likeliest token at each of its masks; empty unless it was asked for.
    pub argmax: Vec<TokenId>,
    /// The log-probabilities of those tokens; empty unless they were asked for.
    pub confidence: Vec<f64>,
    /// Under a constraint: what completes its children.
    pub prediction: Option<Arc<Prediction>>,
}

impl Expanded {
    /// A parent with what was answered about it.
    pub fn new(encoded: &Encoded, answer: Answer) -> Self {
        let Answer { argmax, confidence, prediction, .. } = answer;
        Self { encoded: encoded.clone(), argmax, confidence, prediction }
    }
}

/// The children of a population.
#[derive(Clone, Debug, Default)]
pub struct Proposals {
    /// All children, grouped by parent.
    pub children: Vec<Child>,
    /// One entry per parent.
    pub parents: Vec<Expanded>,
}
