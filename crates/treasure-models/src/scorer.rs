//! Autoregressive models as scorers: negative log-likelihoods of texts and ids.
//!
//! Guarantee: numbers are those of each sequence alone, although common prefixes are computed once.

use rayon::prelude::*;

use crate::{
    Error, LoadOptions, Resolver, Result, Role, Tokenizer,
    describe::Description,
    exec::{Executor, Runner, Sequence},
    load::{self, Loaded, Opened},
    stack::Reader,
};

/// A GPT-2 or Llama-family model.
#[derive(Debug)]
pub struct Scorer {
    runner: Runner,
    max_len: usize,
    bos_id: Option<u32>,
    tokenizer: Option<Tokenizer>,
    description: Description,
}

load::shell!(Scorer, Role::Scorer, "a scorer");

impl Scorer {
    fn from_opened(
        executor: &dyn Executor,
        opened: &Opened,
        resolver: &Resolver,
        options: &LoadOptions,
    ) -> Result<Self> {
        let Loaded { net, tokenizer, mut description, .. } =
            opened.language_model(resolver, options, true)?;
        let bos_id = tokenizer.as_ref().and_then(|tokenizer| {
            let specials = tokenizer.specials();
            let from_config = || net.bos_id.filter(|&id| tokenizer.knows(id));
            specials.bos.or_else(|| if specials.bos_is_stated() { None } else { from_config() })
        });
        description.bos_id = bos_id.or(net.bos_id);
        let reader = Reader::Vocabulary(net.head);
        let runner =
            opened.run(executor, net.stack, reader, tokenizer.as_ref(), &mut description)?;
        Ok(Self { runner, max_len: net.max_len, bos_id, tokenizer, description })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| self.description.no_tokenizer())
    }

    /// The token put in front of a text, if the tokenizer has one.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos_id
    }

    /// The longest sequence, BOS included.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// The ids a text is scored as: BOS if the tokenizer has one, then the text.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids: Vec<u32> = self.bos_id.into_iter().collect();
        ids.extend(self.tokenizer()?.encode(text, false)?);
        Ok(ids)
    }

    /// The ids of several texts.
    pub fn ids_of(&self, texts: &[&str]) -> Result<Vec<Vec<u32>>> {
        texts.par_iter().map(|text| self.ids(text)).collect()
    }

    /// Nats of every token but the first, given those before it; nothing for sequences of one token or none.
    pub fn nll(&self, batch: &[&[u32]]) -> Result<Vec<Vec<f64>>> {
        if let Some(ids) = batch.iter().find(|ids| ids.len() > self.max_len) {
            return Err(Error::expected(
                "sequence",
                format!("at most {} tokens", self.max_len),
                ids.len(),
            ));
        }
        self.runner.nll(batch)
    }

    /// Raw logits `[len, vocabulary]` of a sequence, for checks against a reference.
    pub fn raw_logits(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let hidden = self.runner.hidden(&[Sequence::all(ids)])?;
        self.runner.logits(hidden.values())
    }
}

/// The mean of per-token nats; `None` if there is none to average.
pub fn mean_nll(nll: &[f64]) -> Option<f64> {
    (!nll.is_empty()).then(|| nll.iter().sum::<f64>() / nll.len() as f64)
}
