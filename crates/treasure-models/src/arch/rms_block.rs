//! The pre-norm block of Llama, LLaDA and Dream: RMSNorm, grouped-query attention with rotary, gated MLP.

use std::sync::Arc;

use crate::{
    Result,
    stack::{Activation, Attention, Block, FeedForward, Matrix, NormKind, Rotary, Visibility},
    tensors::Tensors,
};

/// Sizes and switches.
pub(super) struct Sizes {
    pub(super) width: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) hidden: usize,
    pub(super) eps: f32,
    pub(super) qkv_bias: bool,
    pub(super) out_bias: bool,
    pub(super) mlp_bias: bool,
    pub(super) activation: Activation,
    pub(super) visibility: Visibility,
    /// Whether q and k rows are stored in pairs (GGUF) instead of halves.
    pub(super) paired_rows: bool,
}

/// Tensor names without `.weight` and `.bias`.
pub(super) struct Names {
    pub(super) attn_norm: String,
    pub(super) q: String,
    pub(super) k: String,
    pub(super) v: String,
    pub(super) o: String,
    pub(super) ff_norm: String,
    pub(super) gate: String,
    pub(super) up: String,
    pub(super) down: String,
}

impl Names {
    /// Llama's names under a prefix such as `model.layers.0`.
    pub(super) fn llama(prefix: &str) -> Self {
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        Self {
            attn_norm: name("input_layernorm"),
            q: name("self_attn.q_proj"),
            k: name("self_attn.k_proj"),
            v: name("self_attn.v_proj"),
            o: name("self_attn.o_proj"),
            ff_norm: name("post_attention_layernorm"),
            gate: name("mlp.gate_proj"),
            up: name("mlp.up_proj"),
            down: name("mlp.down_proj"),
        }
    }
}

/// Reads one block.
pub(super) fn block(
    t: &mut Tensors,
    sizes: &Sizes,
    names: &Names,
    rotary: &Arc<Rotary>,
) -> Result<Block> {
    let Sizes { width, heads, kv_heads, head_dim, hidden, eps, .. } = *sizes;
    let mut rotated = |name: &str, count: usize| -> Result<Matrix> {
        let rows = count * head_dim;
        if !sizes.paired_rows {
            return t.linear(name, rows, width, sizes.qkv_bias);
        }
        let half = head_dim / 2;
        let place = move |row: usize| {
            let (head, at) = (row / head_dim, row % head_dim);
            head * head_dim + 2 * (at % half) + at / half
        };
        let linear = t.matrix_rows(&format!("{name}.weight"), rows, width, place);
        if !sizes.qkv_bias {
            return Ok(linear);
        }
        let stored = t.values(&format!("{name}.bias"), &[rows])?;
        let bias = if stored.is_empty() {
            stored
        } else {
            (0..rows).map(|row| stored[place(row)]).collect()
        };
        Ok(linear.with_bias(bias))
    };
    let (q, k) = (rotated(&names.q, heads)?, rotated(&names.k, kv_heads)?);
    let attention = Attention {
        heads,
        kv_heads,
        head_dim,
        q,
        k,
        v: t.linear(&names.v, kv_heads * head_dim, width, sizes.qkv_bias)?,
        o: t.linear(&names.o, width, heads * head_dim, sizes.out_bias)?,
        rotary: Some(Arc::clone(rotary)),
        visibility: sizes.visibility,
    };
    Ok(Block {
        attn_norm: Some(t.norm(NormKind::Rms, &names.attn_norm, width, false, eps)?),
        attention,
        ff_norm: Some(t.norm(NormKind::Rms, &names.ff_norm, width, false, eps)?),
        feed_forward: FeedForward {
            gate: Some(t.linear(&names.gate, hidden, width, sizes.mlp_bias)?),
            up: t.linear(&names.up, hidden, width, sizes.mlp_bias)?,
            activation: sizes.activation,
            down: t.linear(&names.down, width, hidden, sizes.mlp_bias)?,
        },
        post_norm: false,
        modulation: None,
    })
}
