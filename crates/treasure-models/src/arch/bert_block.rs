//! The post-norm encoder of BERT, RoBERTa and DistilBERT. Old files call a norm's parts `gamma` and `beta`.

use crate::{
    Result,
    config::Config,
    stack::{
        Activation, Attention, Block, Embed, FeedForward, Norm, NormKind, PositionRule, Stack,
        Tokens, Visibility,
    },
    tensors::Tensors,
};

/// Sizes of an encoder.
pub(super) struct Sizes {
    pub(super) width: usize,
    pub(super) heads: usize,
    pub(super) hidden: usize,
    pub(super) layers: usize,
    pub(super) eps: f32,
    pub(super) activation: Activation,
}

impl Sizes {
    /// From the keys BERT and RoBERTa share.
    pub(super) fn read(config: &Config) -> Result<Self> {
        config.only("position_embedding_type", &"absolute".into())?;
        config.only("is_decoder", &false.into())?;
        Ok(Self {
            width: config.size("hidden_size")?,
            heads: config.size("num_attention_heads")?,
            hidden: config.size("intermediate_size")?,
            layers: config.layers("num_hidden_layers")?,
            eps: config.epsilon("layer_norm_eps", 1e-12)?,
            activation: config.activation("hidden_act", Activation::Gelu)?,
        })
    }
}

/// Tensor names of one layer, without `.weight` and `.bias`.
pub(super) struct Names {
    pub(super) q: String,
    pub(super) k: String,
    pub(super) v: String,
    pub(super) o: String,
    pub(super) attn_norm: String,
    pub(super) up: String,
    pub(super) down: String,
    pub(super) ff_norm: String,
}

impl Names {
    /// BERT's and RoBERTa's names under a prefix such as `bert.encoder.layer.0`.
    pub(super) fn bert(prefix: &str) -> Self {
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        Self {
            q: name("attention.self.query"),
            k: name("attention.self.key"),
            v: name("attention.self.value"),
            o: name("attention.output.dense"),
            attn_norm: name("attention.output.LayerNorm"),
            up: name("intermediate.dense"),
            down: name("output.dense"),
            ff_norm: name("output.LayerNorm"),
        }
    }
}

/// A LayerNorm under its new or its old names.
pub(super) fn norm(t: &mut Tensors, name: &str, width: usize, eps: f32) -> Result<Norm> {
    let old = t.has(&format!("{name}.gamma"));
    let (weight, bias) = if old { ("gamma", "beta") } else { ("weight", "bias") };
    Ok(Norm {
        kind: NormKind::Layer,
        weight: t.values(&format!("{name}.{weight}"), &[width])?,
        bias: Some(t.values(&format!("{name}.{bias}"), &[width])?),
        eps,
    })
}

/// One layer.
pub(super) fn block(
    t: &mut Tensors,
    config: &Config,
    sizes: &Sizes,
    names: &Names,
) -> Result<Block> {
    let Sizes { width, heads, hidden, eps, activation, .. } = *sizes;
    let head_dim = config.head_dim(width, heads)?;
    Ok(Block {
        attn_norm: Some(norm(t, &names.attn_norm, width, eps)?),
        attention: Attention {
            heads,
            kv_heads: heads,
            head_dim,
            q: t.linear(&names.q, width, width, true)?,
            k: t.linear(&names.k, width, width, true)?,
            v: t.linear(&names.v, width, width, true)?,
            o: t.linear(&names.o, width, width, true)?,
            rotary: None,
            visibility: Visibility::Full,
        },
        ff_norm: Some(norm(t, &names.ff_norm, width, eps)?),
        feed_forward: FeedForward {
            gate: None,
            up: t.linear(&names.up, hidden, width, true)?,
            activation,
            down: t.linear(&names.down, width, hidden, true)?,
        },
        post_norm: true,
        modulation: None,
    })
}

/// BERT's or RoBERTa's encoder under `root` (`bert` or `roberta`), with a token table already read.
pub(super) fn encoder(
    t: &mut Tensors,
    config: &Config,
    sizes: &Sizes,
    root: &str,
    tokens: Tokens,
    rule: PositionRule,
) -> Result<Stack> {
    let width = sizes.width;
    let positions = config.size("max_position_embeddings")?;
    let types = config.size_if("type_vocab_size")?.unwrap_or(2);
    let table =
        t.matrix(&format!("{root}.embeddings.position_embeddings.weight"), positions, width);
    let mut constant =
        t.values(&format!("{root}.embeddings.token_type_embeddings.weight"), &[types, width])?;
    constant.truncate(width);
    let norm = norm(t, &format!("{root}.embeddings.LayerNorm"), width, sizes.eps)?;
    let blocks = (0..sizes.layers)
        .map(|i| block(t, config, sizes, &Names::bert(&format!("{root}.encoder.layer.{i}"))))
        .collect::<Result<_>>()?;
    Ok(Stack {
        width,
        embed: Embed {
            tokens,
            positions: Some((table, rule)),
            constant: Some(constant),
            norm: Some(norm),
        },
        blocks,
        final_norm: None,
        conditioning: None,
        final_modulation: None,
    })
}
