//! What the search asks of a masked diffusion model: `x_θ(z, t)` of the paper, question by question.
//!
//! A forward pass ([`Denoiser::encode`], one NFE per state) is kept apart from reading the head
//! ([`Denoiser::read`], no NFE). So the whole L × V prediction never exists: a search asks for the
//! top tokens at one position and the likeliest token at the others, and a later question about the
//! same state runs the head only.
//!
//! Both denoiser constraints of Appendix B hold by construction: rows exist for masked positions only
//! (carry-over), and the mask token is never an answer (no mask mass).

use std::{any::Any, sync::Arc};

use crate::{Bans, MaskedSeq, Prediction, Result, TokenId};

/// A state to run through the network.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The partially masked sequence.
    pub seq: &'a MaskedSeq,
    /// The diffusion time in `[0, 1]`; ignored by time-agnostic models.
    pub t: f64,
}

/// What a forward pass left behind, opaque to the search: for a network its final hidden states at
/// the masked positions.
#[derive(Clone)]
pub struct Encoding {
    content: Arc<dyn Any + Send + Sync>,
    bytes: usize,
}

impl Encoding {
    /// Wraps what `read` will need; `bytes` is its size in memory, for bounded caches.
    pub fn new<T: Any + Send + Sync>(content: T, bytes: usize) -> Self {
        Self { content: Arc::new(content), bytes }
    }

    /// The content, if it was made by the same kind of denoiser.
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.content.downcast_ref()
    }

    /// The size in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl std::fmt::Debug for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoding({} bytes)", self.bytes)
    }
}

/// The `k` likeliest tokens at a masked position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// A masked position.
    pub position: usize,
    /// How many tokens; fewer come back when fewer are allowed.
    pub k: usize,
}

/// A categorical draw at a masked position by inverse CDF over increasing token ids, in f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// A masked position.
    pub position: usize,
    /// A uniform number in (0, 1).
    pub u: f64,
    /// Which text the token belongs to. Under a constraint the draws of one text, which stand side by
    /// side, are made one after another; otherwise every draw is independent.
    pub text: u32,
}

/// What a question asks for. Each part is answered in the order it was asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Want<'a> {
    /// The likeliest token at every masked position, in position order.
    pub argmax: bool,
    /// With `argmax`: also the log-probability of each of those tokens (costs a pass over the vocabulary).
    pub confidence: bool,
    /// Top-k at chosen positions.
    pub top: &'a [At],
    /// Draws.
    pub draws: &'a [Draw],
    /// Log-probabilities of given tokens at masked positions.
    pub logprobs: &'a [(usize, TokenId)],
    /// The logits of all tokens at masked positions.
    pub rows: &'a [usize],
}

/// A question about an encoded state.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The same sequence that was encoded.
    pub seq: &'a MaskedSeq,
    /// What `encode` returned for it.
    pub encoding: &'a Encoding,
    /// Tokens that may not appear.
    pub bans: &'a Bans,
    /// What to answer.
    pub want: Want<'a>,
}

/// A token with its log-probability under the constrained, ban-respecting prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: TokenId,
    /// Its natural log-probability.
    pub logprob: f64,
}

/// The answer to a [`Question`], part by part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// One token per masked position, in position order; empty unless asked. Ties: the lowest id.
    pub argmax: Vec<TokenId>,
    /// Log-probabilities of `argmax`; empty unless asked.
    pub confidence: Vec<f64>,
    /// One list per [`At`], likeliest first, ties by lowest id.
    pub top: Vec<Vec<Candidate>>,
    /// One token per [`Draw`].
    pub draws: Vec<TokenId>,
    /// One number per asked token (−∞ if banned).
    pub logprobs: Vec<f64>,
    /// One row per asked position: log-probabilities up to a constant of the row (−∞ if banned).
    pub rows: Vec<Vec<f32>>,
    /// Under a constraint, what a candidate's log-probability lacks to the model's own: one list per
    /// [`At`]. With it, sums over candidates are of the model's law.
    pub top_mass: Vec<Vec<f64>>,
    /// The same for drawn tokens, one number per [`Draw`].
    pub draw_mass: Vec<f64>,
    /// Under a constraint and with `argmax`: what completes the state's children.
    pub prediction: Option<Arc<Prediction>>,
}

impl PartialEq for Prediction {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// What holds for every state of a denoiser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Token ids are below this. Includes ids it never emits (its mask id among them).
    pub vocab_size: usize,
    /// Tokens it never emits: its mask id, padding rows of the embedding.
    pub never: Vec<TokenId>,
    /// Whether the prediction ignores the time, so that equal states have equal predictions.
    pub time_agnostic: bool,
    /// The longest sequence it accepts.
    pub max_len: usize,
}

/// A masked diffusion model.
///
/// Implementations promise *row invariance*: the answer about a state is bitwise the same alone or in
/// any batch, at any thread count. One that cannot says so, and is never asked for two searches at once.
pub trait Denoiser: Send + Sync {
    /// What a search must know before it asks.
    fn facts(&self) -> &Facts;

    /// Whether that promise is kept.
    fn row_invariant(&self) -> bool {
        true
    }

    /// Runs the network: one encoding per state, in order. Costs one NFE per state.
    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>>;

    /// Whether [`Denoiser::encode_after`] saves work.
    fn reuses(&self) -> bool {
        false
    }

    /// As [`Denoiser::encode`], approximately: a state may go on from the encoding of an earlier state of the
    /// same length, which this made too, and take what it kept of tokens that did not change. One NFE a state.
    fn encode_after(
        &self,
        batch: &[State<'_>],
        _before: &[Option<&Encoding>],
    ) -> Result<Vec<Encoding>> {
        self.encode(batch)
    }

    /// Forward passes that one state costs: more than one where a prediction is made of several.
    fn passes(&self) -> u64 {
        1
    }

    /// Answers questions about encoded states, in order. Costs no NFE.
    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>>;

    /// About how many bytes the encoding of a state with so many masks takes, if that is worth counting.
    fn encoding_bytes(&self, _masks: usize) -> u64 {
        0
    }
}
