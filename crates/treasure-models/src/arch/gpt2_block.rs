//! GPT-2's network under a name prefix, with a causal or a full view: pre-norm, learned positions, `Conv1D`.
//! Source: transformers `GPT2LMHeadModel`.

use super::{LanguageModel, Shift, table_and_decoder};
use crate::{
    Result,
    config::Config,
    stack::{
        Activation, Attention, Block, Embed, FeedForward, Head, NormKind, PositionRule, Stack,
        Visibility,
    },
    tensors::Tensors,
};

/// Names that differ between GPT-2 and DiffuGPT.
pub(super) struct Names<'a> {
    /// The token table.
    pub(super) tokens: &'a str,
    /// What stands before `wpe`, `h.0` and `ln_f`: empty, or ends in a dot.
    pub(super) root: &'a str,
    /// The decoder, where it is stored.
    pub(super) decoder: &'a str,
}

pub(super) fn network(
    config: &Config,
    t: &mut Tensors,
    names: &Names<'_>,
    visibility: Visibility,
) -> Result<LanguageModel> {
    config.only("scale_attn_weights", &true.into())?;
    config.only("scale_attn_by_inverse_layer_idx", &false.into())?;
    config.only("add_cross_attention", &false.into())?;
    let width = config.size("n_embd")?;
    let heads = config.size("n_head")?;
    let head_dim = config.head_dim(width, heads)?;
    let hidden = config.size_if("n_inner")?.unwrap_or(4 * width);
    let eps = config.epsilon("layer_norm_epsilon", 1e-5)?;
    let activation = config.activation("activation_function", Activation::GeluTanh)?;
    let vocabulary = config.size("vocab_size")?;
    let positions = match config.size_if("n_positions")? {
        Some(positions) => positions,
        None => config.size_if("n_ctx")?.unwrap_or(1024),
    };
    let root = names.root;
    let (tokens, decoder) = table_and_decoder(
        t,
        names.tokens,
        names.decoder,
        [vocabulary, width],
        config.flag("tie_word_embeddings", true)?,
    )?;
    let table = t.matrix(&format!("{root}wpe.weight"), positions, width);
    let mut blocks = Vec::new();
    for i in 0..config.layers("n_layer")? {
        let name = format!("{root}h.{i}");
        let [q, k, v] = t.conv1d(&format!("{name}.attn.c_attn"), 3 * width, width)?;
        let [o] = t.conv1d(&format!("{name}.attn.c_proj"), width, width)?;
        let [up] = t.conv1d(&format!("{name}.mlp.c_fc"), hidden, width)?;
        let [down] = t.conv1d(&format!("{name}.mlp.c_proj"), width, hidden)?;
        blocks.push(Block {
            attn_norm: Some(t.norm(NormKind::Layer, &format!("{name}.ln_1"), width, true, eps)?),
            attention: Attention {
                heads,
                kv_heads: heads,
                head_dim,
                q,
                k,
                v,
                o,
                rotary: None,
                visibility,
            },
            ff_norm: Some(t.norm(NormKind::Layer, &format!("{name}.ln_2"), width, true, eps)?),
            feed_forward: FeedForward { gate: None, up, activation, down },
            post_norm: false,
            modulation: None,
        });
    }
    let final_norm = t.norm(NormKind::Layer, &format!("{root}ln_f"), width, true, eps)?;
    Ok(LanguageModel {
        stack: Stack {
            width,
            embed: Embed {
                tokens,
                positions: Some((table, PositionRule::From(0))),
                constant: None,
                norm: None,
            },
            blocks,
            final_norm: Some(final_norm),
            conditioning: None,
            final_modulation: None,
        },
        head: Head { transform: None, decoder },
        max_len: positions,
        rows: vocabulary,
        vocabulary,
        mask_id: config.token("mask_token_id")?,
        bos_id: config.token("bos_token_id")?,
        eos_id: config.token("eos_token_id")?,
        shift: Shift::None,
        timed: false,
    })
}
