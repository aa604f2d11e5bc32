//! BERT for sequence classification: token 0 → pooler (tanh) → classifier.
//! Source: transformers `BertForSequenceClassification`.

use super::{
    ClassifierNet, Pool,
    bert_block::{Sizes, encoder},
    labels,
};
use crate::{
    Result,
    config::Config,
    stack::{Activation, Classify, PositionRule, Tokens},
    tensors::Tensors,
};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<ClassifierNet> {
    let sizes = Sizes::read(config)?;
    let width = sizes.width;
    let tokens =
        t.matrix("bert.embeddings.word_embeddings.weight", config.size("vocab_size")?, width);
    let stack = encoder(t, config, &sizes, "bert", Tokens::Own(tokens), PositionRule::From(0))?;
    // With two default labels the config says nothing: the weights do.
    let count = t.shape("classifier.weight").and_then(|shape| shape.first().copied()).unwrap_or(2);
    Ok(ClassifierNet {
        stack,
        classify: Classify {
            dense: Some((t.linear("bert.pooler.dense", width, width, true)?, Activation::Tanh)),
            classifier: t.linear("classifier", count, width, true)?,
        },
        max_len: config.size("max_position_embeddings")?,
        rows: config.size("vocab_size")?,
        labels: labels(config, count)?,
        pool: Pool::First,
        gate: None,
    })
}
