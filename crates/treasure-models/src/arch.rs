//! One file per architecture: config and tensor names in, a [`Stack`] and what reads it out.
//!
//! Nothing here runs a network; a constant modulation is folded into weights as they are read ([`mdlm`]). Shared
//! block shapes are in [`rms_block`], [`bert_block`] and [`gpt2_block`].

mod bert_block;
mod bert_cls;
mod bert_mlm;
mod diffugpt;
mod diffullama;
mod distilbert_cls;
mod dream;
mod family;
mod gguf_llama;
mod gpt2;
mod gpt2_block;
mod llada;
mod llama;
mod llama_cls;
mod mdlm;
mod modernbert;
mod rms_block;
mod roberta_cls;

pub(crate) use family::detect;
pub use family::{Family, Role};
pub(crate) use mdlm::sigma_at;

use std::sync::Arc;

use crate::{
    Error, Result,
    config::Config,
    gate::Gate,
    gguf::Header,
    stack::{Classify, Head, Matrix, Stack, Tokens},
    tensors::Tensors,
    weights::Weights,
};

/// Where the prediction for a position comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    /// From the same position.
    None,
    /// From the position before; position 0 keeps its own.
    KeepFirst,
    /// From the position before; position 0 must be given.
    FirstGiven,
}

/// A network with a vocabulary head.
pub(crate) struct LanguageModel {
    pub(crate) stack: Stack,
    pub(crate) head: Head,
    pub(crate) max_len: usize,
    /// Rows of the embedding.
    pub(crate) rows: usize,
    /// Ids below this are tokens; rows from here on are padding.
    pub(crate) vocabulary: usize,
    pub(crate) mask_id: Option<u32>,
    pub(crate) bos_id: Option<u32>,
    pub(crate) eos_id: Option<u32>,
    pub(crate) shift: Shift,
    pub(crate) timed: bool,
}

/// A network with a sequence classifier.
pub(crate) struct ClassifierNet {
    pub(crate) stack: Stack,
    pub(crate) classify: Classify,
    pub(crate) max_len: usize,
    /// Rows of the embedding.
    pub(crate) rows: usize,
    pub(crate) labels: Vec<String>,
    /// Which hidden state is read.
    pub(crate) pool: Pool,
    /// What weighs the outputs, where they are objectives of one score.
    pub(crate) gate: Option<Gate>,
}

/// Which hidden state a classifier reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// The first token's.
    First,
    /// The last token's that is not padding.
    Last {
        /// The padding.
        pad: Option<u32>,
    },
}

impl Pool {
    /// The position in a sequence; the first where all is padding, as in transformers.
    pub(crate) fn position(self, ids: &[u32]) -> usize {
        match self {
            Self::First => 0,
            Self::Last { pad } => ids.iter().rposition(|&id| Some(id) != pad).unwrap_or(0),
        }
    }
}

/// What a network is built from.
pub(crate) struct Checkpoint<'a> {
    pub(crate) place: String,
    pub(crate) weights: &'a Arc<Weights>,
    /// Whether vectors are read; an outline without them is enough to describe a model.
    pub(crate) load: bool,
}

/// Builds a language model from a Hugging Face layout; also returns the number of parameters.
pub(crate) fn language_model(
    family: Family,
    config: &Config,
    checkpoint: &Checkpoint<'_>,
) -> Result<(LanguageModel, u64)> {
    let build: fn(&Config, &mut Tensors) -> Result<LanguageModel> = match family {
        Family::Mdlm => mdlm::build,
        Family::Llada => llada::build,
        Family::Dream => dream::build,
        Family::DiffuGpt => diffugpt::build,
        Family::DiffuLlama => diffullama::build,
        Family::BertMlm => bert_mlm::build,
        Family::ModernBertMlm => modernbert::build,
        Family::Gpt2 => gpt2::build,
        Family::Llama => llama::build,
        Family::RobertaClassifier
        | Family::BertClassifier
        | Family::DistilBertClassifier
        | Family::LlamaClassifier => {
            return Err(Error::expected(
                &checkpoint.place,
                "a model with a vocabulary head",
                family,
            ));
        }
    };
    let Checkpoint { place, weights, load } = checkpoint;
    Tensors::build(weights, place, *load, ignored(family), |t| build(config, t))
}

/// Builds a Llama-family model from a GGUF file; also returns the number of parameters.
pub(crate) fn gguf_model(
    header: &Header,
    checkpoint: &Checkpoint<'_>,
) -> Result<(LanguageModel, u64)> {
    let Checkpoint { place, weights, load } = checkpoint;
    Tensors::build(weights, place, *load, |_| false, |t| gguf_llama::build(header, t))
}

/// Builds a sequence classifier; also returns the number of parameters.
pub(crate) fn classifier(
    family: Family,
    config: &Config,
    checkpoint: &Checkpoint<'_>,
) -> Result<(ClassifierNet, u64)> {
    let build: fn(&Config, &mut Tensors) -> Result<ClassifierNet> = match family {
        Family::RobertaClassifier => roberta_cls::build,
        Family::BertClassifier => bert_cls::build,
        Family::DistilBertClassifier => distilbert_cls::build,
        Family::LlamaClassifier => llama_cls::build,
        other => {
            return Err(Error::expected(&checkpoint.place, "a sequence classifier", other));
        }
    };
    let Checkpoint { place, weights, load } = checkpoint;
    Tensors::build(weights, place, *load, ignored(family), |t| build(config, t))
}

/// Tensors a published file may hold although the network does not use them.
fn ignored(family: Family) -> impl Fn(&str) -> bool {
    move |name| {
        let buffer = name.ends_with(".position_ids") || name.ends_with("rotary_emb.inv_freq");
        buffer
            || match family {
                Family::BertMlm => {
                    name.starts_with("bert.pooler.") || name.starts_with("cls.seq_relationship.")
                }
                Family::RobertaClassifier => {
                    name.starts_with("roberta.pooler.") || name.starts_with("lm_head.")
                }
                // What a reward model was tuned from.
                Family::LlamaClassifier => name == "lm_head.weight",
                Family::Gpt2 | Family::DiffuGpt => {
                    // Causal masks that old versions stored as buffers.
                    name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")
                }
                _ => false,
            }
    }
}

/// A token table and a decoder without bias: one matrix if `tied`, two otherwise.
fn table_and_decoder(
    t: &mut Tensors,
    table: &str,
    decoder: &str,
    [vocabulary, width]: [usize; 2],
    tied: bool,
) -> Result<(Tokens, Matrix)> {
    if tied {
        return Ok((Tokens::Decoder, t.tied(table, decoder, vocabulary, width)?));
    }
    let own = t.matrix(table, vocabulary, width);
    Ok((Tokens::Own(own), t.matrix(decoder, vocabulary, width)))
}

/// Label names: from the config, or `LABEL_i` as transformers makes them up.
fn labels(config: &Config, count: usize) -> Result<Vec<String>> {
    let Some(labels) = config.labels()? else {
        return Ok((0..count).map(|id| format!("LABEL_{id}")).collect());
    };
    if count > 0 && labels.len() != count {
        return Err(Error::expected(
            "id2label",
            format!("{count} labels as the classifier has"),
            labels.len(),
        ));
    }
    Ok(labels)
}
