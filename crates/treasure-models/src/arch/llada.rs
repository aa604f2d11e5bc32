//! LLaDA (8B Base, Instruct, 1.5): a Llama-like encoder with its own names; no shift, no time.
//! Source: `modeling_llada.py` as copied by ims-kdks/LLaDA.

use std::sync::Arc;

use super::{
    LanguageModel, Shift,
    rms_block::{Names, Sizes, block},
    table_and_decoder,
};
use crate::{
    Result,
    config::Config,
    stack::{Activation, Embed, Head, NormKind, Stack, Visibility},
    tensors::Tensors,
};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    for (key, value) in [
        ("block_type", "llama".into()),
        ("layer_norm_type", "rms".into()),
        ("rope", true.into()),
        ("alibi", false.into()),
        ("attention_layer_norm", false.into()),
        ("bias_for_layer_norm", false.into()),
        ("layer_norm_with_affine", true.into()),
        ("input_emb_norm", false.into()),
        ("scale_logits", false.into()),
        ("block_group_size", 1.into()),
    ] {
        config.only(key, &value)?;
    }
    let width = config.size("d_model")?;
    let heads = config.size("n_heads")?;
    let one_kv = config.flag("multi_query_attention", false)?;
    let kv_heads = config.size_if("n_kv_heads")?.unwrap_or(if one_kv { 1 } else { heads });
    config.head_dim(heads, kv_heads)?;
    let head_dim = config.head_dim(width, heads)?;
    let hidden = match config.size_if("mlp_hidden_size")? {
        Some(hidden) => hidden,
        None => width * config.size_if("mlp_ratio")?.unwrap_or(4),
    };
    let eps = config.epsilon("rms_norm_eps", 1e-5)?;
    let vocabulary = config.size("vocab_size")?;
    let rows = config.size_if("embedding_size")?.unwrap_or(vocabulary).max(vocabulary);
    let bias = config.flag("include_bias", false)?;
    let sizes = Sizes {
        width,
        heads,
        kv_heads,
        head_dim,
        hidden,
        eps,
        qkv_bias: bias || config.flag("include_qkv_bias", false)?,
        out_bias: bias,
        mlp_bias: bias,
        activation: config.activation("activation_type", Activation::Silu)?,
        visibility: Visibility::Full,
        paired_rows: false,
    };
    let rotary = Arc::new(config.rotary(head_dim, 10000.0)?);
    let root = if t.has("transformer.wte.weight") { "transformer" } else { "model.transformer" };
    let (tokens, decoder) = table_and_decoder(
        t,
        &format!("{root}.wte.weight"),
        &format!("{root}.ff_out.weight"),
        [rows, width],
        config.flag("weight_tying", false)?,
    )?;
    let blocks = (0..config.layers("n_layers")?)
        .map(|i| block(t, &sizes, &names(&format!("{root}.blocks.{i}")), &rotary))
        .collect::<Result<_>>()?;
    let stack = Stack {
        width,
        embed: Embed { tokens, positions: None, constant: None, norm: None },
        blocks,
        final_norm: Some(t.norm(NormKind::Rms, &format!("{root}.ln_f"), width, false, eps)?),
        conditioning: None,
        final_modulation: None,
    };
    Ok(LanguageModel {
        stack,
        head: Head { transform: None, decoder },
        max_len: config.size_if("max_sequence_length")?.unwrap_or(4096),
        rows,
        vocabulary,
        mask_id: config.token("mask_token_id")?,
        bos_id: config.token("bos_token_id")?,
        eos_id: config.token("eos_token_id")?,
        shift: Shift::None,
        timed: false,
    })
}

/// `ff_proj` is the gate, a block's `ff_out` the way back.
fn names(prefix: &str) -> Names {
    let name = |suffix: &str| format!("{prefix}.{suffix}");
    Names {
        attn_norm: name("attn_norm"),
        q: name("q_proj"),
        k: name("k_proj"),
        v: name("v_proj"),
        o: name("attn_out"),
        ff_norm: name("ff_norm"),
        gate: name("ff_proj"),
        up: name("up_proj"),
        down: name("ff_out"),
    }
}
