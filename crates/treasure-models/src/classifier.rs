//! Sequence classifiers: log-probabilities of labels for texts and ids.
//!
//! Labels exclude each other (softmax), unless the config says `multi_label_classification` or there is
//! one label only: then each has a probability of its own (sigmoid), as in transformers' pipelines.

use rayon::prelude::*;

use crate::{
    Error, Family, LoadOptions, Resolver, Result, Role, Tokenizer,
    describe::Description,
    exec::{Cpu, Executor, Runner},
    load::{self, Kind, Loaded, Opened},
    stack::Reader,
};

/// A RoBERTa, BERT or DistilBERT classifier.
#[derive(Debug)]
pub struct Classifier {
    runner: Runner,
    labels: Vec<String>,
    exclusive: bool,
    max_len: usize,
    truncate_to: Option<usize>,
    tokenizer: Option<Tokenizer>,
    description: Description,
}

impl Classifier {
    /// Loads a classifier by name.
    pub fn load(resolver: &Resolver, spec: &str, options: &LoadOptions) -> Result<Self> {
        Self::load_on(&Cpu::new(), resolver, spec, options)
    }

    /// Loads a classifier by name onto an executor.
    pub fn load_on(
        executor: &dyn Executor,
        resolver: &Resolver,
        spec: &str,
        options: &LoadOptions,
    ) -> Result<Self> {
        let opened = load::open(resolver, spec, options)?;
        opened.expect(Role::Classifier)?;
        Self::from_opened(executor, &opened, resolver, options)
    }

    fn from_opened(
        executor: &dyn Executor,
        opened: &Opened,
        resolver: &Resolver,
        options: &LoadOptions,
    ) -> Result<Self> {
        let Loaded { net, tokenizer, mut description } =
            opened.classifier(resolver, options, true)?;
        let several = match &opened.kind {
            Kind::HuggingFace(config) => {
                config.text("problem_type")? == Some("multi_label_classification")
            }
            Kind::Gguf(_) => false,
        };
        let reader = Reader::Classes(net.classify);
        let runner =
            opened.run(executor, net.stack, reader, tokenizer.as_ref(), &mut description)?;
        Ok(Self {
            runner,
            exclusive: !several && net.labels.len() > 1,
            labels: net.labels,
            max_len: net.max_len,
            truncate_to: None,
            tokenizer,
            description,
        })
    }

    /// Cuts texts to this many tokens, special tokens included; without it a text beyond the model's
    /// longest sequence is an error.
    #[must_use]
    pub fn with_max_length(mut self, tokens: usize) -> Self {
        self.truncate_to = Some(tokens);
        self
    }

    /// The labels, in order.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The index of a label given by name (case matters) or by number.
    pub fn label(&self, name: &str) -> Result<usize> {
        let by_name = self.labels.iter().position(|label| label == name);
        let by_number = || name.parse::<usize>().ok().filter(|&id| id < self.labels.len());
        by_name.or_else(by_number).ok_or_else(|| {
            Error::expected(
                format!("label of {}", self.description.name),
                format!(
                    "one of {} or an index below {}",
                    self.labels.join(", "),
                    self.labels.len()
                ),
                name,
            )
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| self.description.no_tokenizer())
    }

    /// The longest sequence, special tokens included.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.description.architecture
    }

    /// What this model is.
    pub fn describe(&self) -> Description {
        self.description.clone()
    }

    /// The network on its executor, for benchmarks and checks.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The ids of a text with its special tokens, cut to the window if one was set.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer()?;
        let ids = tokenizer.encode(text, true)?;
        let limit = self.truncate_to.map_or(self.max_len, |window| window.min(self.max_len));
        if ids.len() <= limit {
            return Ok(ids);
        }
        if self.truncate_to.is_none() {
            return Err(Error::expected(
                "text",
                format!("at most {} tokens", self.max_len),
                ids.len(),
            )
            .with_hint("set a token window for this reward"));
        }
        // Cut the text, not the special tokens around it.
        let bare = tokenizer.encode(text, false)?;
        let around = ids.len().saturating_sub(bare.len());
        let before = (0..=around).find(|&n| ids[n..].starts_with(&bare)).unwrap_or(0);
        let room = limit.saturating_sub(around);
        let mut cut = ids[..before].to_vec();
        cut.extend(bare.iter().take(room));
        cut.extend_from_slice(&ids[before + bare.len().min(ids.len() - before)..]);
        Ok(cut)
    }

    /// One log-probability per label and text.
    pub fn log_probs(&self, texts: &[&str]) -> Result<Vec<Vec<f64>>> {
        let ids = texts.par_iter().map(|text| self.ids(text)).collect::<Result<Vec<_>>>()?;
        let views: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
        self.log_probs_ids(&views)
    }

    /// One log-probability per label and sequence of ids, taken as they are.
    pub fn log_probs_ids(&self, batch: &[&[u32]]) -> Result<Vec<Vec<f64>>> {
        let logits = self.logits_ids(batch)?;
        Ok(logits.iter().map(|logits| self.normalise(logits)).collect())
    }

    /// Raw label logits of sequences of ids, for checks against a reference.
    pub fn logits_ids(&self, batch: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        if let Some(ids) = batch.iter().find(|ids| ids.is_empty() || ids.len() > self.max_len) {
            return Err(Error::expected(
                "sequence",
                format!("from 1 to {} tokens", self.max_len),
                ids.len(),
            ));
        }
        Ok(self.runner.classify(batch)?)
    }

    fn normalise(&self, logits: &[f32]) -> Vec<f64> {
        let wide = logits.iter().map(|&x| f64::from(x));
        if !self.exclusive {
            // ln sigmoid(x) = −ln(1 + e^−x), without overflow for x far below 0.
            return wide.map(|x| x.min(0.0) - (-x.abs()).exp().ln_1p()).collect();
        }
        let largest = wide.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = wide.clone().map(|x| (x - largest).exp()).sum();
        wide.map(|x| x - largest - sum.ln()).collect()
    }
}
