//! Llama and its relatives (SmolLM2, Mistral, Qwen2) as autoregressive scorers.
//! Source: transformers `LlamaForCausalLM`.

use std::sync::Arc;

use super::{
    LanguageModel, Shift,
    rms_block::{Names, Sizes, block},
    table_and_decoder,
};
use crate::{
    Result,
    config::Config,
    stack::{Activation, Embed, Head, NormKind, Stack, Tokens, Visibility},
    tensors::Tensors,
};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    network(config, t, Visibility::Causal)
}

/// The network with a causal or a full view.
pub(super) fn network(
    config: &Config,
    t: &mut Tensors,
    visibility: Visibility,
) -> Result<LanguageModel> {
    let (width, vocabulary) = (config.size("hidden_size")?, config.size("vocab_size")?);
    let tied = config.flag("tie_word_embeddings", false)?;
    let (tokens, decoder) =
        table_and_decoder(t, TABLE, "lm_head.weight", [vocabulary, width], tied)?;
    let (stack, max_len) = body(config, t, visibility, tokens)?;
    Ok(LanguageModel {
        stack,
        head: Head { transform: None, decoder },
        max_len,
        rows: vocabulary,
        vocabulary,
        mask_id: config.token("mask_token_id")?,
        bos_id: config.token("bos_token_id")?,
        eos_id: config.token("eos_token_id")?,
        shift: Shift::None,
        timed: false,
    })
}

/// The token table.
pub(super) const TABLE: &str = "model.embed_tokens.weight";

/// All but what reads the final hidden states, and the longest sequence.
pub(super) fn body(
    config: &Config,
    t: &mut Tensors,
    visibility: Visibility,
    tokens: Tokens,
) -> Result<(Stack, usize)> {
    let width = config.size("hidden_size")?;
    let heads = config.size("num_attention_heads")?;
    let kv_heads = config.size_if("num_key_value_heads")?.unwrap_or(heads);
    config.head_dim(heads, kv_heads)?;
    let head_dim = match config.size_if("head_dim")? {
        Some(head_dim) => head_dim,
        None => config.head_dim(width, heads)?,
    };
    let eps = config.epsilon("rms_norm_eps", 1e-6)?;
    let positions = config.size_if("max_position_embeddings")?.unwrap_or(2048);
    let sizes = Sizes {
        width,
        heads,
        kv_heads,
        head_dim,
        hidden: config.size("intermediate_size")?,
        eps,
        qkv_bias: t.has("model.layers.0.self_attn.q_proj.bias"),
        out_bias: t.has("model.layers.0.self_attn.o_proj.bias"),
        mlp_bias: config.flag("mlp_bias", false)?,
        activation: config.activation("hidden_act", Activation::Silu)?,
        visibility,
        paired_rows: false,
    };
    let rotary = Arc::new(config.rotary(head_dim, 10000.0)?);
    let blocks = (0..config.layers("num_hidden_layers")?)
        .map(|i| block(t, &sizes, &Names::llama(&format!("model.layers.{i}")), &rotary))
        .collect::<Result<_>>()?;
    let stack = Stack {
        width,
        embed: Embed { tokens, positions: None, constant: None, norm: None },
        blocks,
        final_norm: Some(t.norm(NormKind::Rms, "model.norm", width, false, eps)?),
        conditioning: None,
        final_modulation: None,
    };
    // A sliding window changes nothing for sequences that fit into it.
    let window = match config.flag("use_sliding_window", true)? {
        true => config.size_if("sliding_window")?,
        false => None,
    };
    Ok((stack, window.map_or(positions, |window| window.min(positions))))
}
