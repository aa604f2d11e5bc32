//! What reads the final hidden states: a vocabulary head or a classifier.

use std::sync::Arc;

use super::{Activation, Linear, Norm};

/// BERT's `dense → activation → norm` before the decoder.
#[derive(Clone, Debug)]
pub struct HeadTransform {
    /// `[width, width]`.
    pub dense: Linear,
    /// GELU in published checkpoints.
    pub activation: Activation,
    /// Applied last.
    pub norm: Option<Norm>,
}

/// Hidden rows to logits over the vocabulary.
#[derive(Clone, Debug)]
pub struct Head {
    /// BERT-style transform.
    pub transform: Option<HeadTransform>,
    /// `[vocabulary, width]`; shared with the token table when tied.
    pub decoder: Arc<Linear>,
}

impl Head {
    /// The number of logits.
    pub fn vocabulary(&self) -> usize {
        self.decoder.outputs()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let transform = self
            .transform
            .as_ref()
            .map_or(0, |t| t.dense.bytes() + t.norm.as_ref().map_or(0, Norm::bytes));
        transform + self.decoder.bytes()
    }
}

/// Sequence classification on the first token: `classifier(activation(dense(h₀)))`.
#[derive(Clone, Debug)]
pub struct Classify {
    /// BERT's pooler, RoBERTa's dense layer or DistilBERT's pre-classifier.
    pub dense: Option<(Linear, Activation)>,
    /// `[labels, width]`.
    pub classifier: Linear,
}
