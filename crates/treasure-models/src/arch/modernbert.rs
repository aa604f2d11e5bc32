//! ModernBERT with its masked-language-model head, as a denoiser: pre-norm, gated MLP, layers with a full
//! and with a local view that have rotations of their own. Source: transformers `ModernBertForMaskedLM`.

use std::sync::Arc;

use super::{LanguageModel, Shift, table_and_decoder};
use crate::{
    Error, Result,
    config::Config,
    stack::{
        Activation, Attention, Block, Embed, FeedForward, Head, HeadTransform, NormKind, Rotary,
        Stack, Visibility,
    },
    tensors::Tensors,
};

struct Sizes {
    width: usize,
    heads: usize,
    head_dim: usize,
    hidden: usize,
    eps: f32,
    norm_bias: bool,
    attention_bias: bool,
    mlp_bias: bool,
    activation: Activation,
}

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    let width = config.size("hidden_size")?;
    let heads = config.size("num_attention_heads")?;
    let sizes = Sizes {
        width,
        heads,
        head_dim: config.head_dim(width, heads)?,
        hidden: config.size("intermediate_size")?,
        eps: config.epsilon("norm_eps", 1e-5)?,
        norm_bias: config.flag("norm_bias", false)?,
        attention_bias: config.flag("attention_bias", false)?,
        mlp_bias: config.flag("mlp_bias", false)?,
        activation: config.activation("hidden_activation", Activation::Gelu)?,
    };
    let (eps, norm_bias) = (sizes.eps, sizes.norm_bias);
    let vocabulary = config.size("vocab_size")?;
    let words = "model.embeddings.tok_embeddings.weight";
    let bias = match config.flag("decoder_bias", true)? {
        true => Some(t.values("decoder.bias", &[vocabulary])?),
        false => None,
    };
    let tied = config.flag("tie_word_embeddings", true)?;
    let (tokens, decoder) =
        table_and_decoder(t, words, "decoder.weight", [vocabulary, width], tied)?;
    let decoder = match bias {
        Some(bias) => decoder.with_bias(bias),
        None => decoder,
    };
    let head_dim = sizes.head_dim;
    let full = config.rotary_of_kind(head_dim, "full_attention", "global_rope_theta", 160_000.0)?;
    let local_theta = config.number("local_rope_theta", 10_000.0)?;
    let local =
        config.rotary_of_kind(head_dim, "sliding_attention", "local_rope_theta", local_theta)?;
    let (full, local) = (Arc::new(full), Arc::new(local));
    let window = config.size_if("local_attention")?.unwrap_or(128) / 2;
    let layers = config.layers("num_hidden_layers")?;
    let global = global_layers(config, layers)?;
    let mut blocks = Vec::new();
    for (i, &global) in global.iter().enumerate() {
        let (rotary, visibility) = match global {
            true => (&full, Visibility::Full),
            false => (&local, Visibility::Window(window)),
        };
        blocks.push(block(t, &sizes, i, rotary, visibility)?);
    }
    let norm = |t: &mut Tensors, name: &str| t.norm(NormKind::Layer, name, width, norm_bias, eps);
    let stack = Stack {
        width,
        embed: Embed {
            tokens,
            positions: None,
            constant: None,
            norm: Some(norm(t, "model.embeddings.norm")?),
        },
        blocks,
        final_norm: Some(norm(t, "model.final_norm")?),
        conditioning: None,
        final_modulation: None,
    };
    let transform = HeadTransform {
        dense: t.linear("head.dense", width, width, config.flag("classifier_bias", false)?)?,
        activation: config.activation("classifier_activation", Activation::Gelu)?,
        norm: Some(norm(t, "head.norm")?),
    };
    Ok(LanguageModel {
        stack,
        head: Head { transform: Some(transform), decoder },
        max_len: config.size_if("max_position_embeddings")?.unwrap_or(8192),
        rows: vocabulary,
        vocabulary,
        mask_id: config.token("mask_token_id")?,
        bos_id: config.token("bos_token_id")?,
        eos_id: config.token("eos_token_id")?,
        shift: Shift::None,
        timed: false,
    })
}

/// Which layers see everything: a list (transformers 5) or every n-th (transformers 4).
fn global_layers(config: &Config, layers: usize) -> Result<Vec<bool>> {
    let Some(kinds) = config.get("layer_types").and_then(|kinds| kinds.as_array()) else {
        let every = config.size_if("global_attn_every_n_layers")?.unwrap_or(3);
        return Ok((0..layers).map(|i| i % every == 0).collect());
    };
    if kinds.len() != layers {
        return Err(Error::expected("layer_types", format!("{layers} kinds"), kinds.len()));
    }
    kinds
        .iter()
        .map(|kind| match kind.as_str() {
            Some("full_attention") => Ok(true),
            Some("sliding_attention") => Ok(false),
            _ => {
                Err(Error::unsupported("layer_types", "full_attention or sliding_attention", kind))
            }
        })
        .collect()
}

fn block(
    t: &mut Tensors,
    sizes: &Sizes,
    i: usize,
    rotary: &Arc<Rotary>,
    visibility: Visibility,
) -> Result<Block> {
    let Sizes { width, heads, head_dim, hidden, .. } = *sizes;
    let name = format!("model.layers.{i}");
    let norm = |t: &mut Tensors, part: &str| {
        t.norm(NormKind::Layer, &format!("{name}.{part}"), width, sizes.norm_bias, sizes.eps)
    };
    // Layer 0 reads the embedding norm directly.
    let attn_norm = if i == 0 { None } else { Some(norm(t, "attn_norm")?) };
    let mut part = |stored: &str, rows: usize, at: usize, count: usize, bias: bool| {
        let weight = format!("{name}.{stored}.weight");
        let linear = t.rows_of(&weight, [rows, width], at, count);
        if !bias {
            return Ok(linear);
        }
        let all = t.values(&format!("{name}.{stored}.bias"), &[rows])?;
        Ok(linear.with_bias(all.get(at..at + count).unwrap_or_default().to_vec()))
    };
    let mut qkv = |at: usize| part("attn.Wqkv", 3 * width, at * width, width, sizes.attention_bias);
    let (q, k, v) = (qkv(0)?, qkv(1)?, qkv(2)?);
    // The halves of Wi are (input, gate) with the activation on the input.
    let mut half = |at: usize| part("mlp.Wi", 2 * hidden, at * hidden, hidden, sizes.mlp_bias);
    let (activated, other): (Result<_>, Result<_>) = (half(0), half(1));
    let feed_forward = FeedForward {
        gate: Some(activated?),
        up: other?,
        activation: sizes.activation,
        down: t.linear(&format!("{name}.mlp.Wo"), width, hidden, sizes.mlp_bias)?,
    };
    let o = t.linear(&format!("{name}.attn.Wo"), width, width, sizes.attention_bias)?;
    Ok(Block {
        attn_norm,
        attention: Attention {
            heads,
            kv_heads: heads,
            head_dim,
            q,
            k,
            v,
            o,
            rotary: Some(Arc::clone(rotary)),
            visibility,
        },
        ff_norm: Some(norm(t, "mlp_norm")?),
        feed_forward,
        post_norm: false,
        modulation: None,
    })
}
