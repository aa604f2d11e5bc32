//! Which architecture a checkpoint is: from `model_type`, tensor names and what the user says.

use std::{fmt, str::FromStr};

use crate::{Error, Result, config::Config, weights::Weights};

/// A supported architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// MDLM's DiT.
    Mdlm,
    /// LLaDA.
    Llada,
    /// Dream.
    Dream,
    /// GPT-2 adapted to diffusion.
    DiffuGpt,
    /// Llama adapted to diffusion.
    DiffuLlama,
    /// BERT with its masked-language-model head.
    BertMlm,
    /// ModernBERT with its masked-language-model head.
    ModernBertMlm,
    /// GPT-2.
    Gpt2,
    /// Llama and its relatives.
    Llama,
    /// RoBERTa for sequence classification.
    RobertaClassifier,
    /// BERT for sequence classification.
    BertClassifier,
    /// DistilBERT for sequence classification.
    DistilBertClassifier,
    /// Llama and its relatives for sequence classification: reward models.
    LlamaClassifier,
}

/// What a model is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Predicts masked tokens.
    Denoiser,
    /// Gives the likelihood of a text.
    Scorer,
    /// Gives label probabilities.
    Classifier,
}

impl Role {
    /// It in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denoiser => "denoiser",
            Self::Scorer => "scorer",
            Self::Classifier => "classifier",
        }
    }
}

const NAMES: [(Family, &str); 13] = [
    (Family::Mdlm, "mdlm"),
    (Family::Llada, "llada"),
    (Family::Dream, "dream"),
    (Family::DiffuGpt, "diffugpt"),
    (Family::DiffuLlama, "diffullama"),
    (Family::BertMlm, "bert"),
    (Family::ModernBertMlm, "modernbert"),
    (Family::Gpt2, "gpt2"),
    (Family::Llama, "llama"),
    (Family::RobertaClassifier, "roberta-classifier"),
    (Family::BertClassifier, "bert-classifier"),
    (Family::DistilBertClassifier, "distilbert-classifier"),
    (Family::LlamaClassifier, "llama-classifier"),
];

impl Family {
    /// What models of this family are used for.
    pub fn role(self) -> Role {
        match self {
            Self::Mdlm
            | Self::Llada
            | Self::Dream
            | Self::DiffuGpt
            | Self::DiffuLlama
            | Self::BertMlm
            | Self::ModernBertMlm => Role::Denoiser,
            Self::Gpt2 | Self::Llama => Role::Scorer,
            Self::RobertaClassifier
            | Self::BertClassifier
            | Self::DistilBertClassifier
            | Self::LlamaClassifier => Role::Classifier,
        }
    }

    /// The name it is asked for by.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(family, _)| *family == self).map_or("unknown", |(_, name)| name)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denoiser => "a denoiser",
            Self::Scorer => "an autoregressive scorer",
            Self::Classifier => "a sequence classifier",
        })
    }
}

impl FromStr for Family {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        NAMES.iter().find(|(_, own)| *own == lower).map(|(family, _)| *family).ok_or_else(|| {
            Error::expected("architecture", NAMES.map(|(_, name)| name).join(", "), name)
        })
    }
}

/// The family of a checkpoint.
pub(crate) fn detect(
    config: &Config,
    weights: &Weights,
    named: Option<Family>,
    place: &str,
) -> Result<Family> {
    if let Some(family) = named {
        return Ok(family);
    }
    let has = |name: &str| weights.tensors().contains_key(name);
    let any = |prefix: &str| weights.tensors().keys().any(|name| name.starts_with(prefix));
    let model_type = config.model_type()?;
    Ok(match model_type {
        "mdlm" => Family::Mdlm,
        "llada" => Family::Llada,
        "Dream" | "dream" => Family::Dream,
        // The config of DiffuGPT says gpt2: only the names of its tensors tell it apart.
        "gpt2" if any("denoise_model.") => Family::DiffuGpt,
        "gpt2" => Family::Gpt2,
        "llama" | "mistral" | "qwen2" if has("score.weight") || has("regression_layer.weight") => {
            Family::LlamaClassifier
        }
        "llama" | "mistral" | "qwen2" => Family::Llama,
        "bert" if has("classifier.weight") => Family::BertClassifier,
        "bert" if any("cls.predictions.") => Family::BertMlm,
        "modernbert" if has("head.dense.weight") && !has("classifier.weight") => {
            Family::ModernBertMlm
        }
        "roberta" if has("classifier.out_proj.weight") => Family::RobertaClassifier,
        "distilbert" if has("classifier.weight") => Family::DistilBertClassifier,
        "bert" | "modernbert" | "roberta" | "distilbert" => {
            return Err(Error::unsupported(
                format!("{place}: a {model_type} without a head that can be used"),
                "a masked-LM or classification checkpoint",
                format!("architectures {:?}", config.architectures()),
            ));
        }
        other => {
            return Err(Error::unsupported(
                format!("{place}: model_type"),
                "mdlm, llada, Dream, gpt2, llama, mistral, qwen2, bert, modernbert, roberta or distilbert",
                other,
            )
            .with_hint("if the files are in the layout of one of these, ask for that architecture"));
        }
    })
}
