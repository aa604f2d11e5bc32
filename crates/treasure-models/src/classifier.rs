//! Sequence classifiers: log-probabilities of labels for texts and ids.
//!
//! Labels exclude each other (softmax), unless the config says `multi_label_classification` or there is
//! one label only: then each has a probability of its own (sigmoid), as in transformers' pipelines.

use rayon::prelude::*;
use treasure_text::{ChatTemplate, conversation};

use crate::{
    Error, Family, LoadOptions, Resolver, Result, Role, Tokenizer,
    arch::Pool,
    describe::Description,
    exec::{Executor, Keep, Runner, Sequence},
    gate::{self, Gate},
    load::{self, Format, Loaded, Opened},
    stack::Reader,
};

/// A RoBERTa, BERT or DistilBERT classifier, or a reward model of Llama's or Qwen2's type.
#[derive(Debug)]
pub struct Classifier {
    runner: Runner,
    labels: Vec<String>,
    exclusive: bool,
    max_len: usize,
    tokenizer: Option<Tokenizer>,
    chat: Option<ChatTemplate>,
    pool: Pool,
    gate: Option<Gate>,
    description: Description,
}

load::shell!(Classifier, Role::Classifier, "a classifier");

impl Classifier {
    fn from_opened(
        executor: &dyn Executor,
        opened: &Opened,
        resolver: &Resolver,
        options: &LoadOptions,
    ) -> Result<Self> {
        let Loaded { net, tokenizer, mut description, chat } =
            opened.classifier(resolver, options, true)?;
        let several = match &opened.kind {
            Format::HuggingFace(config) => {
                config.text("problem_type")? == Some("multi_label_classification")
            }
            Format::Gguf(_) => false,
        };
        let reader = Reader::Classes(net.classify);
        let runner =
            opened.run(executor, net.stack, reader, tokenizer.as_ref(), &mut description)?;
        Ok(Self {
            runner,
            exclusive: !several && net.labels.len() > 1,
            labels: net.labels,
            max_len: net.max_len,
            tokenizer,
            chat,
            pool: net.pool,
            gate: net.gate,
            description,
        })
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

    /// The ids of a conversation as this model's own chat template writes it, if it has one and the text
    /// is one ([`conversation`]).
    fn conversation(&self, text: &str) -> Result<Option<Vec<u32>>> {
        let Some(chat) = self.chat.as_ref().filter(|_| self.family() == Family::LlamaClassifier)
        else {
            return Ok(None);
        };
        let Some(messages) = conversation(text) else { return Ok(None) };
        let text = chat.render(&messages, false)?;
        Ok(Some(self.tokenizer()?.encode(&text, false)?))
    }

    /// The ids of a text with its special tokens; one beyond the model's longest sequence is an error. A
    /// reward model with a chat template of its own reads a conversation through it.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>> {
        self.ids_to(text, None)
    }

    /// The ids of each text as [`Self::ids`] gives them, but cut to a window of this many tokens, special
    /// tokens included, and to the model's longest sequence.
    pub fn ids_within(&self, texts: &[&str], window: usize) -> Result<Vec<Vec<u32>>> {
        texts.par_iter().map(|text| self.ids_to(text, Some(window))).collect()
    }

    fn ids_to(&self, text: &str, window: Option<usize>) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer()?;
        let limit = window.map_or(self.max_len, |window| window.min(self.max_len));
        if let Some(ids) = self.conversation(text)? {
            // The end of an answer says most about it: what is too long loses its beginning.
            let beyond = ids.len().saturating_sub(limit);
            if beyond > 0 && window.is_none() {
                let most = format!("at most {} tokens", self.max_len);
                return Err(Error::expected("conversation", most, ids.len())
                    .with_hint("set a token window for this reward"));
            }
            return Ok(ids[beyond..].to_vec());
        }
        let ids = tokenizer.encode(text, true)?;
        if ids.len() <= limit {
            return Ok(ids);
        }
        if window.is_none() {
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
        if let Some(gate) = &self.gate {
            return batch.iter().map(|ids| self.gated(gate, ids)).collect();
        }
        let at: Vec<(&[u32], usize)> =
            batch.iter().map(|&ids| (ids, self.pool.position(ids))).collect();
        self.runner.classify_at(&at)
    }

    /// The one score of a reward model whose objectives are weighed by the prompt.
    fn gated(&self, gate: &Gate, ids: &[u32]) -> Result<Vec<f32>> {
        let answer = self.tokenizer()?.encode(gate::ANSWER, false)?;
        let Some(prompt) = Gate::position(ids, &answer) else {
            return Err(Error::expected(
                "text",
                "a conversation in Llama 3's format with an answer, as this reward model reads",
                "none",
            )
            .with_hint("ask in chat, or score a text that the chat template wrote"));
        };
        let positions = [prompt, self.pool.position(ids)];
        let sequence = Sequence { tokens: ids, keep: Keep::Positions(&positions), sigma: 0.0 };
        let hidden = self.runner.hidden(&[sequence])?;
        let (prompt, answer) = hidden.values().split_at(hidden.values().len() / 2);
        let objectives = self.runner.logits(answer)?;
        Ok(vec![gate.score(prompt, &objectives) as f32])
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
