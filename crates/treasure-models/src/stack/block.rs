//! One layer: norms, attention and a feed-forward network.

use std::sync::Arc;

use super::{Matrix, Rotary};

/// Which statistic a norm removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Mean and variance.
    Layer,
    /// The root mean square.
    Rms,
}

/// `normalised(x) · weight + bias`.
#[derive(Clone, Debug)]
pub struct Norm {
    /// Layer or RMS.
    pub kind: NormKind,
    /// One factor per component.
    pub weight: Vec<f32>,
    /// One shift per component.
    pub bias: Option<Vec<f32>>,
    /// Added to the variance or mean square.
    pub eps: f32,
}

impl Norm {
    /// Folds a constant modulation `(1 + scale) · norm(x) + shift` into weight and bias (exact up to rounding).
    pub fn modulated(mut self, shift: &[f32], scale: &[f32]) -> Self {
        let bias = self.bias.take().unwrap_or_else(|| vec![0.0; self.weight.len()]);
        let bias =
            bias.iter().zip(scale).zip(shift).map(|((b, scale), shift)| b * (1.0 + scale) + shift);
        self.bias = Some(bias.collect());
        self.weight.iter_mut().zip(scale).for_each(|(w, scale)| *w *= 1.0 + scale);
        self
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        4 * (self.weight.len() + self.bias.as_ref().map_or(0, Vec::len))
    }
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All of its sequence.
    Full,
    /// Its own position and those before it.
    Causal,
    /// Positions at most this far away on either side.
    Window(usize),
}

/// Softmax attention with `heads` query heads over `kv_heads` key and value heads (query head `h` reads
/// key head `h / (heads / kv_heads)`), scaled by `1 / sqrt(head_dim)`.
#[derive(Debug)]
pub struct Attention<M = Matrix> {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Components per head.
    pub head_dim: usize,
    /// Queries, `[heads · head_dim, width]`.
    pub q: M,
    /// Keys, `[kv_heads · head_dim, width]`.
    pub k: M,
    /// Values, `[kv_heads · head_dim, width]`.
    pub v: M,
    /// Back to the residual stream, `[width, heads · head_dim]`.
    pub o: M,
    /// Rotation of queries and keys by position.
    pub rotary: Option<Arc<Rotary>>,
    /// Which keys a query sees.
    pub visibility: Visibility,
}

/// A pointwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x · Φ(x)` by the error function.
    Gelu,
    /// `x · Φ(x)` by the tanh formula.
    GeluTanh,
    /// `x · sigmoid(x)`.
    Silu,
    /// `max(x, 0)`.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
}

/// The feed-forward network of a layer.
#[derive(Debug)]
pub struct FeedForward<M = Matrix> {
    /// With a gate: `down(activation(gate x) · up x)`; without: `down(activation(up x))`.
    pub gate: Option<M>,
    /// `[hidden, width]`.
    pub up: M,
    /// Applied to the gate if there is one, to `up` otherwise. SwiGLU is a gate with SiLU, GeGLU with GELU.
    pub activation: Activation,
    /// `[width, hidden]`.
    pub down: M,
}

/// Time-dependent shift, scale and gate of a layer: `[shift1 | scale1 | gate1 | shift2 | scale2 | gate2]`,
/// 6 × width rows on the conditioning vector. Norms become `(1 + scale) · norm(x) + shift`, branches are
/// multiplied by their gate.
#[derive(Debug)]
pub struct Modulation<M = Matrix>(
    /// `[6 · width, conditioning width]`, with bias.
    pub M,
);

/// One layer.
///
/// Pre-norm: `x += attention(attn_norm(x)); x += feed_forward(ff_norm(x))`.
/// Post-norm: `x = attn_norm(x + attention(x)); x = ff_norm(x + feed_forward(x))`.
#[derive(Debug)]
pub struct Block<M = Matrix> {
    /// The norm of the attention branch; none means identity.
    pub attn_norm: Option<Norm>,
    /// Attention.
    pub attention: Attention<M>,
    /// The norm of the feed-forward branch; none means identity.
    pub ff_norm: Option<Norm>,
    /// Feed-forward network.
    pub feed_forward: FeedForward<M>,
    /// Whether norms come after the residual sums (BERT) instead of before the branches.
    pub post_norm: bool,
    /// For time-conditioned networks (pre-norm only).
    pub modulation: Option<Modulation<M>>,
}

impl<M> Block<M> {
    /// The same with its matrices in another form, taken over one after another.
    pub fn try_map<N, E>(self, matrix: &mut impl FnMut(M) -> Result<N, E>) -> Result<Block<N>, E> {
        let Attention { heads, kv_heads, head_dim, q, k, v, o, rotary, visibility } =
            self.attention;
        let FeedForward { gate, up, activation, down } = self.feed_forward;
        let (q, k, v, o) = (matrix(q)?, matrix(k)?, matrix(v)?, matrix(o)?);
        let gate = gate.map(&mut *matrix).transpose()?;
        let (up, down) = (matrix(up)?, matrix(down)?);
        Ok(Block {
            attn_norm: self.attn_norm,
            attention: Attention { heads, kv_heads, head_dim, q, k, v, o, rotary, visibility },
            ff_norm: self.ff_norm,
            feed_forward: FeedForward { gate, up, activation, down },
            post_norm: self.post_norm,
            modulation: self.modulation.map(|m| matrix(m.0)).transpose()?.map(Modulation),
        })
    }

    /// All matrices.
    pub fn matrices(&self) -> impl Iterator<Item = &M> {
        let Attention { q, k, v, o, .. } = &self.attention;
        let FeedForward { gate, up, down, .. } = &self.feed_forward;
        let modulation = self.modulation.as_ref().map(|m| &m.0);
        [q, k, v, o, up, down].into_iter().chain(gate).chain(modulation)
    }
}
