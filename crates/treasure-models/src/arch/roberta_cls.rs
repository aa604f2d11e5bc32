//! RoBERTa for sequence classification: token 0 → dense (tanh) → projection. Positions count the tokens
//! that are not padding, from the padding id + 1. Source: transformers `RobertaForSequenceClassification`.

use super::{
    ClassifierNet, Pool,
    bert_block::{Sizes, encoder},
    labels,
};
use crate::{
    Error, Result,
    config::Config,
    stack::{Activation, Classify, PositionRule, Tokens},
    tensors::Tensors,
};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<ClassifierNet> {
    let sizes = Sizes::read(config)?;
    let width = sizes.width;
    let pad = config.token("pad_token_id")?.unwrap_or(1);
    let positions = config.size("max_position_embeddings")?;
    let max_len =
        positions.checked_sub(pad as usize + 1).filter(|&len| len > 0).ok_or_else(|| {
            Error::expected("max_position_embeddings", format!("more than {pad} + 1"), positions)
        })?;
    let tokens =
        t.matrix("roberta.embeddings.word_embeddings.weight", config.size("vocab_size")?, width);
    let stack =
        encoder(t, config, &sizes, "roberta", Tokens::Own(tokens), PositionRule::CountNonPad(pad))?;
    let last = "classifier.out_proj";
    let count = t.shape("classifier.out_proj.weight").and_then(|shape| shape.first().copied());
    let count = count.unwrap_or(2);
    Ok(ClassifierNet {
        stack,
        classify: Classify {
            dense: Some((t.linear("classifier.dense", width, width, true)?, Activation::Tanh)),
            classifier: t.linear(last, count, width, true)?,
        },
        max_len,
        rows: config.size("vocab_size")?,
        labels: labels(config, count)?,
        pool: Pool::First,
        gate: None,
    })
}
