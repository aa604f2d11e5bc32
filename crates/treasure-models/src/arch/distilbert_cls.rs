//! DistilBERT for sequence classification: token 0 → pre-classifier (ReLU) → classifier. Its norms have
//! ε = 1e-12, which no config says. Source: transformers `DistilBertForSequenceClassification`.

use super::{
    ClassifierNet, Pool,
    bert_block::{Names, Sizes, block, norm},
    labels,
};
use crate::{
    Result,
    config::Config,
    stack::{Activation, Classify, Embed, PositionRule, Stack, Tokens},
    tensors::Tensors,
};

const EPS: f32 = 1e-12;

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<ClassifierNet> {
    let width = config.size("dim")?;
    let sizes = Sizes {
        width,
        heads: config.size("n_heads")?,
        hidden: config.size("hidden_dim")?,
        layers: config.layers("n_layers")?,
        eps: EPS,
        activation: config.activation("activation", Activation::Gelu)?,
    };
    let positions = config.size("max_position_embeddings")?;
    let root = "distilbert.embeddings";
    let embed = Embed {
        tokens: Tokens::Own(t.matrix(
            &format!("{root}.word_embeddings.weight"),
            config.size("vocab_size")?,
            width,
        )),
        positions: Some((
            t.matrix(&format!("{root}.position_embeddings.weight"), positions, width),
            PositionRule::From(0),
        )),
        constant: None,
        norm: Some(norm(t, &format!("{root}.LayerNorm"), width, EPS)?),
    };
    let blocks = (0..sizes.layers)
        .map(|i| block(t, config, &sizes, &names(&format!("distilbert.transformer.layer.{i}"))))
        .collect::<Result<_>>()?;
    let count = t.shape("classifier.weight").and_then(|shape| shape.first().copied()).unwrap_or(2);
    Ok(ClassifierNet {
        stack: Stack {
            width,
            embed,
            blocks,
            final_norm: None,
            conditioning: None,
            final_modulation: None,
        },
        classify: Classify {
            dense: Some((t.linear("pre_classifier", width, width, true)?, Activation::Relu)),
            classifier: t.linear("classifier", count, width, true)?,
        },
        max_len: positions,
        rows: config.size("vocab_size")?,
        labels: labels(config, count)?,
        pool: Pool::First,
        gate: None,
    })
}

fn names(prefix: &str) -> Names {
    let name = |suffix: &str| format!("{prefix}.{suffix}");
    Names {
        q: name("attention.q_lin"),
        k: name("attention.k_lin"),
        v: name("attention.v_lin"),
        o: name("attention.out_lin"),
        attn_norm: name("sa_layer_norm"),
        up: name("ffn.lin1"),
        down: name("ffn.lin2"),
        ff_norm: name("output_layer_norm"),
    }
}
