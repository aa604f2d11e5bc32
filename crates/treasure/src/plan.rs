//! A request after every default and every check that needs no weights: printed first, stored with
//! every result, and readable as a request again.
//!
//! What changes no result (threads, batch sizes, file names) is no part of it.

mod asked;
mod precision;
mod written;

pub use precision::precision;

use serde::{Deserialize, Serialize};
use treasure_core::{AnswerKind, Method};
use treasure_models::{Dtype, LoadOptions};
use treasure_rewards::{
    Spec,
    spec::{Kind, Leaf, ValueKind},
};
use treasure_text::{Conventions, Message, Part, Rule, Start, TextModel};

use crate::{Error, Estimate, Result, Template, given::Given, words::UNMET};

/// Whose conventions a run follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Text worth reading: the defaults chosen by measurement.
    #[default]
    Plain,
    /// Algorithms 1–3 of the paper to the letter.
    Paper,
    /// The reference protocol of FK steering: its text windows, lengths and, with the method `fk`, its
    /// rules.
    Fk,
}

impl Preset {
    /// How rewards read text.
    pub fn conventions(self) -> Conventions {
        match self {
            Self::Plain | Self::Paper => Conventions::Plain,
            Self::Fk => Conventions::Fk,
        }
    }

    /// The name users type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Paper => "paper",
            Self::Fk => "fk",
        }
    }
}

/// How a reward reads best beside its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A log-probability: `p = 0.98`.
    LogProbability,
    /// Minus the mean NLL: `perplexity 8.4`.
    MeanLogLikelihood,
    /// A rule in [0, 1] that is met at 1.
    Rule,
    /// The number alone.
    Plain,
}

/// Every option after defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Whose conventions hold.
    pub preset: Preset,
    /// The denoiser.
    pub model: String,
    /// How the denoiser is read.
    pub load: LoadOptions,
    /// The reward.
    pub reward: Spec,
    /// How the weights of rewards are held.
    pub reward_dtype: Dtype,
    /// Held-out judges, each as written.
    pub judge: Vec<Spec>,
    /// The cheap reward of a screened search.
    pub screen: Option<Spec>,
    /// The template, if the holes of one are filled.
    pub template: Option<Template>,
    template_text: Option<String>,
    /// Whether prompts are conversations that a chat template wrote, special tokens and all.
    pub chat: bool,
    /// What the system message of a conversation says, where it has none.
    pub system: Option<String>,
    /// Classifier-free guidance; 0 is none.
    pub cfg_scale: f64,
    /// What the continuation of a prompt must be.
    pub rule: Option<Rule>,
    pub(crate) given: Option<Given>,
    /// Generated tokens.
    pub length: usize,
    /// No end of text before this many.
    pub min_length: usize,
    /// Outputs a prompt gets.
    pub samples: usize,
    /// The seed.
    pub seed: u64,
    /// The method with its options.
    pub method: Method,
    /// Which text is handed back.
    pub answer: AnswerKind,
    /// Budget: model calls.
    pub max_nfe: Option<u64>,
    /// Budget: reward calls.
    pub max_reward_calls: Option<u64>,
    /// Budget: seconds.
    pub max_seconds: Option<f64>,
    /// Stop once the reward is there.
    pub target_reward: Option<f64>,
}

impl Plan {
    /// What one text will take, with a denoiser whose prediction of the first state has so many bytes (0
    /// before it is loaded: then the rest of it counts).
    pub fn estimate(&self, prediction: u64) -> Estimate {
        Estimate::new(&self.method, self.length, prediction)
    }

    /// What the rows of a prompt begin with: the prompt, or what stands before the first hole.
    pub fn begins<'a>(&'a self, prompt: &'a str) -> Result<&'a str> {
        match (&self.given, &self.template) {
            (Some(given), _) => given.begins(),
            (None, Some(template)) => Ok(match template.parts.first() {
                Some(Part::Fixed(fixed)) => fixed.as_str(),
                _ => "",
            }),
            (None, None) => Ok(prompt),
        }
    }

    /// Where a search starts.
    pub(crate) fn start(&self, model: &dyn TextModel, prompt: &str) -> Result<Start> {
        let start = match (&self.given, &self.template) {
            (Some(given), _) => given.start(model)?,
            (None, Some(template)) => Start::template(model, &template.parts)?,
            (None, None) if self.chat => Start::chat(model, prompt, self.length, self.min_length)?,
            (None, None) => {
                let (length, least) = (self.length, self.min_length);
                Start::under(self.preset.conventions(), model, prompt, length, least)?
            }
        };
        Ok(match &self.rule {
            Some(rule) if self.given.is_some() => start.with_rule(rule.clone().in_as_many_tokens()),
            Some(rule) => start.with_rule(rule.clone()),
            None => start,
        })
    }

    /// The prompt that a conversation stands for, as a denoiser's chat template writes it.
    pub fn conversation(&self, model: &dyn TextModel, messages: &[Message]) -> Result<String> {
        let Some(template) = model.chat() else {
            return Err(Error::request(format!("chat: {} has no chat template", self.model))
                .with_hint(
                    "leave chat out, and write the prompt as the model was trained to see it",
                ));
        };
        let mut all = Vec::with_capacity(messages.len() + 1);
        if let Some(system) = &self.system {
            if messages.first().is_some_and(|first| first.role == "system") {
                return Err(Error::request("system: the messages have a system message already"));
            }
            all.push(Message::new("system", system.clone()));
        }
        all.extend_from_slice(messages);
        Ok(template.render(&all, true)?)
    }

    /// Whether something must hold of every text.
    pub fn is_constrained(&self) -> bool {
        let parts = self.template.iter().flat_map(|template| &template.parts);
        let rule = |part: &Part| matches!(part, Part::Hole { rule: Some(_), .. });
        self.rule.is_some() || parts.into_iter().any(rule)
    }

    /// How the reward reads best beside its number.
    pub fn reading(&self) -> Reading {
        match (reading_of(&self.reward), self.preset) {
            // The scorers of that protocol give −ln 2 times the mean, which is no perplexity.
            (Reading::MeanLogLikelihood, Preset::Fk) => Reading::Plain,
            (reading, _) => reading,
        }
    }

    /// The note that a row gets where its reward is a rule that the text does not meet.
    pub(crate) fn unmet(&self, reward: f64) -> Option<String> {
        let unmet = self.reading() == Reading::Rule && reward < 1.0;
        // What is not met is not said to be: 0.9999 is no 1.
        let near = ((reward * 1000.0).round() / 1000.0).min(0.999);
        unmet.then(|| format!("{UNMET}{near} of 1"))
    }
}

/// How a specification reads best beside its number.
pub(crate) fn reading_of(spec: &Spec) -> Reading {
    match &spec.root.kind {
        Kind::Leaf(Leaf::Judge(_, ValueKind::LogProb))
        | Kind::Leaf(Leaf::Classifier { value: ValueKind::LogProb, .. }) => Reading::LogProbability,
        Kind::Leaf(Leaf::Perplexity | Leaf::Scorer { .. }) => Reading::MeanLogLikelihood,
        // Diversity is a matter of degree; every other rule is met at 1.
        Kind::Leaf(Leaf::Rule(_)) if !spec.root.written.starts_with("distinct:") => Reading::Rule,
        _ => Reading::Plain,
    }
}
