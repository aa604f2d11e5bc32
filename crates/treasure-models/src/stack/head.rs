//! What reads the final hidden states: a vocabulary head or a classifier.

use super::{Activation, Matrix, Norm};

/// BERT's `dense → activation → norm` before the decoder.
#[derive(Debug)]
pub struct HeadTransform<M = Matrix> {
    /// `[width, width]`.
    pub dense: M,
    /// GELU in published checkpoints.
    pub activation: Activation,
    /// Applied last.
    pub norm: Option<Norm>,
}

/// Hidden rows to logits over the vocabulary.
#[derive(Debug)]
pub struct Head<M = Matrix> {
    /// BERT-style transform.
    pub transform: Option<HeadTransform<M>>,
    /// `[vocabulary, width]`; also the token table where [`super::Tokens::Decoder`] says so.
    pub decoder: M,
}

/// Sequence classification on the first token: `classifier(activation(dense(h₀)))`.
#[derive(Debug)]
pub struct Classify<M = Matrix> {
    /// BERT's pooler, RoBERTa's dense layer or DistilBERT's pre-classifier.
    pub dense: Option<(M, Activation)>,
    /// `[labels, width]`.
    pub classifier: M,
}

/// What reads the final hidden states.
#[derive(Debug)]
pub enum Reader<M = Matrix> {
    /// Logits over the vocabulary.
    Vocabulary(Head<M>),
    /// Logits of labels.
    Classes(Classify<M>),
}

impl<M> Reader<M> {
    /// The same with its matrices in another form.
    pub fn try_map<N, E>(self, matrix: &mut impl FnMut(M) -> Result<N, E>) -> Result<Reader<N>, E> {
        Ok(match self {
            Self::Vocabulary(Head { transform, decoder }) => Reader::Vocabulary(Head {
                transform: match transform {
                    Some(HeadTransform { dense, activation, norm }) => {
                        Some(HeadTransform { dense: matrix(dense)?, activation, norm })
                    }
                    None => None,
                },
                decoder: matrix(decoder)?,
            }),
            Self::Classes(Classify { dense, classifier }) => Reader::Classes(Classify {
                dense: match dense {
                    Some((dense, activation)) => Some((matrix(dense)?, activation)),
                    None => None,
                },
                classifier: matrix(classifier)?,
            }),
        })
    }

    /// The matrix that hidden rows meet first, and the one that makes the logits.
    pub fn first_and_last(&self) -> (&M, &M) {
        match self {
            Self::Vocabulary(Head { transform, decoder }) => {
                (transform.as_ref().map_or(decoder, |t| &t.dense), decoder)
            }
            Self::Classes(Classify { dense, classifier }) => {
                (dense.as_ref().map_or(classifier, |(dense, _)| dense), classifier)
            }
        }
    }

    /// The norm of a head's transform, if there is one.
    pub fn norm(&self) -> Option<&Norm> {
        match self {
            Self::Vocabulary(head) => head.transform.as_ref()?.norm.as_ref(),
            Self::Classes(_) => None,
        }
    }
}
