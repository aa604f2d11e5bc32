//! The rewards a specification can name, and the short names and schemes they go by.

use crate::{Range, rules::Rule};

/// How a classifier's label becomes a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// The natural logarithm of the label's probability.
    #[default]
    LogProb,
    /// The label's probability (`prob:`).
    Prob,
    /// 1 if the label is the likeliest, else 0 (`accuracy:`).
    Accuracy,
    /// The label's logit, before it becomes a probability (`raw:`): what a reward model of one output gives.
    Raw,
}

impl ValueKind {
    /// The numbers it can give.
    pub fn range(self) -> Range {
        match self {
            Self::LogProb => Range::AT_MOST_ZERO,
            Self::Prob | Self::Accuracy => Range::UNIT,
            Self::Raw => Range::ANY,
        }
    }

    /// The number of label `wanted` from the log-probabilities of all labels; of `raw:`, from their logits.
    pub fn of(self, log_probs: &[f64], wanted: usize) -> f64 {
        let own = log_probs[wanted];
        match self {
            Self::LogProb | Self::Raw => own,
            Self::Prob => own.exp(),
            // Ties go to the first label, as an argmax would have it.
            Self::Accuracy => {
                let beaten = log_probs[..wanted].iter().any(|&other| other >= own)
                    || log_probs[wanted + 1..].iter().any(|&other| other > own);
                f64::from(!beaten)
            }
        }
    }
}

/// A shipped judge, by its short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Judge {
    /// `sentiment=positive`
    Positive,
    /// `sentiment=neutral`
    Neutral,
    /// `sentiment=negative`
    Negative,
    /// `toxicity`: the more toxic, the higher
    Toxicity,
    /// `no-toxicity`
    NoToxicity,
    /// `cola`: linguistic acceptability
    Cola,
}

impl Judge {
    /// Every judge with its short name.
    pub const ALL: [(&'static str, Self); 6] = [
        ("sentiment=positive", Self::Positive),
        ("sentiment=neutral", Self::Neutral),
        ("sentiment=negative", Self::Negative),
        ("toxicity", Self::Toxicity),
        ("no-toxicity", Self::NoToxicity),
        ("cola", Self::Cola),
    ];

    /// The pocket model it asks.
    pub fn model(self) -> &'static str {
        match self {
            Self::Positive | Self::Neutral | Self::Negative => "judge-sentiment",
            Self::Toxicity | Self::NoToxicity => "judge-toxicity",
            Self::Cola => "judge-acceptability",
        }
    }
}

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Text Embeddings Inference, `POST /predict`.
    Tei,
    /// vLLM, `POST /classify` (or `/score` if the URL ends so).
    Vllm,
    /// SGLang, `POST /v1/classify` (or `/v1/score`, `/generate` if the URL ends so).
    Sglang,
    /// OpenAI-style completions with echo and log-probabilities.
    Completions,
    /// OpenRLHF's `POST /get_reward`.
    Reward,
}

impl Protocol {
    /// Every protocol with the word before `+http://`.
    pub const ALL: [(&'static str, Self); 5] = [
        ("tei", Self::Tei),
        ("vllm", Self::Vllm),
        ("sglang", Self::Sglang),
        ("completions", Self::Completions),
        ("reward", Self::Reward),
    ];
}

/// A reward on other machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// How the servers are asked.
    pub protocol: Protocol,
    /// Their addresses, at least one; each answers the same.
    pub urls: Vec<String>,
    /// What stands behind `#`: the label of a classifier, the query of a `/score` endpoint.
    pub label: Option<String>,
    /// How a label becomes a number.
    pub value: ValueKind,
}

impl Remote {
    /// Whether the endpoint is a classifier, so that `prob:` and `accuracy:` apply to it.
    pub fn classifies(&self) -> bool {
        let path_ends = |end: &str| {
            self.urls.iter().any(|url| {
                url.split(['?', '#']).next().unwrap_or(url).trim_end_matches('/').ends_with(end)
            })
        };
        match self.protocol {
            Protocol::Tei => true,
            Protocol::Vllm => !path_ends("/score"),
            Protocol::Sglang => !path_ends("/generate"),
            Protocol::Completions | Protocol::Reward => false,
        }
    }
}

/// One reward of a specification.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf {
    /// A shipped classifier.
    Judge(Judge, ValueKind),
    /// `perplexity`: the shipped scorer.
    Perplexity,
    /// `hf:MODEL#LABEL`
    Classifier {
        /// A directory or a hub id.
        model: String,
        /// A label's name or index; may be left out if the model has one output.
        label: Option<String>,
        /// How the label becomes a number.
        value: ValueKind,
    },
    /// `ppl:MODEL`
    Scorer {
        /// A directory, a GGUF file or a hub id.
        model: String,
    },
    /// `nelbo:MODEL`
    Nelbo {
        /// A directory or a hub id.
        model: String,
    },
    /// A rule, such as `regex:PATTERN` or `contains:word,word`.
    Rule(Rule),
    /// `exec:COMMAND`
    Exec(String),
    /// `own:NAME`: a reward that the caller handed in.
    Own(String),
    /// A server.
    Remote(Remote),
}

impl Leaf {
    /// The checkpoint it asks, a pocket model's by its full name.
    pub fn checkpoint(&self) -> Option<String> {
        match self {
            Self::Judge(judge, _) => Some(format!("pocket/{}", judge.model())),
            Self::Perplexity => Some("pocket/scorer".into()),
            Self::Classifier { model, .. } | Self::Scorer { model } | Self::Nelbo { model } => {
                Some(model.clone())
            }
            _ => None,
        }
    }

    /// The numbers it can give.
    pub fn range(&self) -> Range {
        match self {
            Self::Judge(_, value) => value.range(),
            Self::Classifier { value, .. } => value.range(),
            Self::Perplexity | Self::Scorer { .. } | Self::Nelbo { .. } => Range::AT_MOST_ZERO,
            Self::Rule(_) => Range::UNIT,
            Self::Exec(_) | Self::Own(_) => Range::ANY,
            Self::Remote(remote) => match remote.protocol {
                Protocol::Completions => Range::AT_MOST_ZERO,
                Protocol::Reward => Range::ANY,
                _ if remote.classifies() && remote.label.is_some() => remote.value.range(),
                _ if remote.value != ValueKind::LogProb => remote.value.range(),
                _ => Range::ANY,
            },
        }
    }
}
