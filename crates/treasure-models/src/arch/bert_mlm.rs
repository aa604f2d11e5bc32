//! BERT with its masked-language-model head, as a denoiser. Source: transformers `BertForMaskedLM`.

use super::{
    LanguageModel, Shift,
    bert_block::{Sizes, encoder, norm},
    table_and_decoder,
};
use crate::{
    Result,
    config::Config,
    stack::{Head, HeadTransform, PositionRule},
    tensors::Tensors,
};

pub(super) fn build(config: &Config, t: &mut Tensors) -> Result<LanguageModel> {
    let sizes = Sizes::read(config)?;
    let width = sizes.width;
    let vocabulary = config.size("vocab_size")?;
    let bias_name = "cls.predictions.bias";
    let (words, decoder) =
        ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight");
    // The decoder's bias is one parameter under two names.
    let also = "cls.predictions.decoder.bias";
    let bias_name = if t.has(bias_name) || !t.has(also) { bias_name } else { also };
    let bias = t.values(bias_name, &[vocabulary])?;
    if t.has(also) {
        t.values(also, &[vocabulary])?;
    }
    let tied = config.flag("tie_word_embeddings", true)?;
    let (tokens, decoder) = table_and_decoder(t, words, decoder, [vocabulary, width], tied)?;
    let stack = encoder(t, config, &sizes, "bert", tokens, PositionRule::From(0))?;
    let transform = HeadTransform {
        dense: t.linear("cls.predictions.transform.dense", width, width, true)?,
        activation: sizes.activation,
        norm: Some(norm(t, "cls.predictions.transform.LayerNorm", width, sizes.eps)?),
    };
    Ok(LanguageModel {
        stack,
        head: Head { transform: Some(transform), decoder: decoder.with_bias(bias) },
        max_len: config.size("max_position_embeddings")?,
        rows: vocabulary,
        vocabulary,
        mask_id: config.token("mask_token_id")?,
        bos_id: config.token("bos_token_id")?,
        eos_id: config.token("eos_token_id")?,
        shift: Shift::None,
        timed: false,
    })
}
