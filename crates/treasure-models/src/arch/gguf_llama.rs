//! Llama-family models, LLaDA and Dream from GGUF metadata and tensor names. Files of architecture `llama` store the rows of
//! q and k in pairs for an interleaved rotation; reading them back in halves undoes it.
//! Source: llama.cpp's `convert_hf_to_gguf.py` (names, permutation) and `gguf.md` (keys).

use std::sync::Arc;

use super::{
    LanguageModel, Shift,
    rms_block::{Names, Sizes, block},
};
use crate::{
    Error, Result,
    gguf::Header,
    stack::{Activation, Embed, Head, NormKind, Rotary, Stack, Tokens, Visibility},
    tensors::Tensors,
};

pub(super) fn build(header: &Header, t: &mut Tensors) -> Result<LanguageModel> {
    let architecture = header.text("general.architecture")?;
    let (paired_rows, visibility, shift) = match architecture {
        "llama" => (true, Visibility::Causal, Shift::None),
        "qwen2" => (false, Visibility::Causal, Shift::None),
        // As llama.cpp converts them: LLaDA with Llama's rows, Dream with Qwen2's.
        "llada" => (true, Visibility::Full, Shift::None),
        "dream" => (false, Visibility::Full, Shift::KeepFirst),
        other => {
            let known = "llama, qwen2, llada or dream";
            return Err(Error::unsupported("GGUF general.architecture", known, other));
        }
    };
    let key = |name: &str| format!("{architecture}.{name}");
    let size_if = |name: &str| match header.integer(&key(name))? {
        Some(n) if n == 0 || n > 1 << 24 => {
            Err(Error::expected(format!("GGUF {}", key(name)), "a sane size", n))
        }
        other => Ok(other.map(|n| n as usize)),
    };
    let size = |name: &str| {
        size_if(name)?.ok_or_else(|| Error::new(format!("GGUF metadata has no {}", key(name))))
    };
    let width = size("embedding_length")?;
    let heads = size("attention.head_count")?;
    let kv_heads = size_if("attention.head_count_kv")?.unwrap_or(heads);
    let head_dim = size_if("attention.key_length")?.unwrap_or(width / heads);
    let rotated = size_if("rope.dimension_count")?.unwrap_or(head_dim);
    if rotated != head_dim || head_dim % 2 != 0 {
        return Err(Error::expected(
            "GGUF rope.dimension_count",
            format!("the head's {head_dim}"),
            rotated,
        ));
    }
    if !heads.is_multiple_of(kv_heads) {
        return Err(Error::expected("GGUF head_count", format!("a multiple of {kv_heads}"), heads));
    }
    let layers = size("block_count")?;
    if layers > 4096 {
        return Err(Error::expected("GGUF block_count", "at most 4096", layers));
    }
    let eps = header.number(&key("attention.layer_norm_rms_epsilon"))?.unwrap_or(1e-5) as f32;
    let sizes = Sizes {
        width,
        heads,
        kv_heads,
        head_dim,
        hidden: size("feed_forward_length")?,
        eps,
        qkv_bias: t.has("blk.0.attn_q.bias"),
        out_bias: t.has("blk.0.attn_output.bias"),
        mlp_bias: false,
        activation: Activation::Silu,
        visibility,
        paired_rows,
    };
    let rotary = Arc::new(rotary(header, t, architecture, head_dim)?);
    let vocabulary = match t.shape("token_embd.weight") {
        Some([rows, _]) => *rows,
        _ => size("vocab_size")?,
    };
    let (tokens, decoder) = if t.has("output.weight") {
        let table = t.matrix("token_embd.weight", vocabulary, width);
        (Tokens::Own(table), t.matrix("output.weight", vocabulary, width))
    } else {
        (Tokens::Decoder, t.matrix("token_embd.weight", vocabulary, width))
    };
    let blocks =
        (0..layers).map(|i| block(t, &sizes, &names(i), &rotary)).collect::<Result<_>>()?;
    let stack = Stack {
        width,
        embed: Embed { tokens, positions: None, constant: None, norm: None },
        blocks,
        final_norm: Some(t.norm(NormKind::Rms, "output_norm", width, false, eps)?),
        conditioning: None,
        final_modulation: None,
    };
    let token = |name: &str| {
        header.integer(&format!("tokenizer.ggml.{name}")).map(|id| id.map(|id| id as u32))
    };
    Ok(LanguageModel {
        stack,
        head: Head { transform: None, decoder },
        max_len: size_if("context_length")?.unwrap_or(2048),
        rows: vocabulary,
        vocabulary,
        mask_id: token("mask_token_id")?,
        bos_id: token("bos_token_id")?,
        eos_id: token("eos_token_id")?,
        shift,
        timed: false,
    })
}

/// The rotation: a base, optionally slowed by one factor or by one factor per frequency.
fn rotary(header: &Header, t: &mut Tensors, architecture: &str, head_dim: usize) -> Result<Rotary> {
    let theta = header.number(&format!("{architecture}.rope.freq_base"))?.unwrap_or(10_000.0);
    if !(theta.is_finite() && theta > 0.0) {
        return Err(Error::expected("GGUF rope.freq_base", "a positive number", theta));
    }
    let plain = Rotary::new(head_dim, theta);
    let scaled = |factor: &dyn Fn(usize) -> f32| {
        let slowed = plain.inverse_frequencies().iter().enumerate().map(|(i, f)| f / factor(i));
        Rotary::from_inverse_frequencies(slowed.collect())
    };
    if t.has("rope_freqs.weight") {
        let factors = t.values("rope_freqs.weight", &[head_dim / 2])?;
        return Ok(scaled(&|i| factors.get(i).copied().unwrap_or(1.0)));
    }
    let kind = format!("{architecture}.rope.scaling.type");
    match header.metadata.get(&kind) {
        None => Ok(plain),
        Some(crate::gguf::Value::Text(kind)) if kind == "none" => Ok(plain),
        Some(crate::gguf::Value::Text(kind)) if kind == "linear" => {
            let factor = header
                .number(&format!("{architecture}.rope.scaling.factor"))?
                .filter(|factor| *factor > 0.0)
                .ok_or_else(|| {
                    Error::new("GGUF rope.scaling.factor: expected a positive number")
                })?;
            Ok(scaled(&|_| factor as f32))
        }
        Some(other) => {
            Err(Error::unsupported(format!("GGUF {kind}"), "none or linear", format!("{other:?}")))
        }
    }
}

fn names(i: usize) -> Names {
    let name = |suffix: &str| format!("blk.{i}.{suffix}");
    Names {
        attn_norm: name("attn_norm"),
        q: name("attn_q"),
        k: name("attn_k"),
        v: name("attn_v"),
        o: name("attn_output"),
        ff_norm: name("ffn_norm"),
        gate: name("ffn_gate"),
        up: name("ffn_up"),
        down: name("ffn_down"),
    }
}
