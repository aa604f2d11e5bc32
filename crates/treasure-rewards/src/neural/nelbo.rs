//! `nelbo:MODEL`: minus a denoiser's likelihood bound, in nats per token.
//!
//! Masked diffusion's bound in its any-order form: draw how many tokens to mask uniformly, mask that
//! many at random, average the negative log-probability of the masked tokens. The masks are a function
//! of the tokens alone (stratified over how many), so equal texts have equal rewards; texts of up to
//! four tokens are enumerated exactly. A BOS is given and not counted. The same bound as
//! [`treasure_core::nelbo`] in its mask-count form, with less variance for the same work.

use std::sync::Arc;

use serde_json::json;
use treasure_core::{Bans, Denoiser, Key, MaskedSeq, Question, State, TokenId, Want};
use treasure_models::MaskedLm;

use super::failed;
use crate::{Error, Explained, Range, Result, TextReward, error::quoted};

/// How many masked states estimate one bound.
pub const NELBO_SAMPLES: usize = 16;

/// Finds the tokens of a text: what is given, then what is scored.
type Tokenise = Box<dyn Fn(&str) -> Result<Vec<TokenId>> + Send + Sync>;

/// A bound in nats per token, with how many tokens it is over.
struct Bound {
    nats: f64,
    tokens: usize,
}

/// A denoiser's likelihood bound as a reward.
pub struct NelboReward {
    name: String,
    denoiser: Arc<dyn Denoiser>,
    tokenise: Tokenise,
    given: usize,
    max_tokens: Option<usize>,
    samples: usize,
}

impl NelboReward {
    /// A reward called `name` on texts, by `model` and its tokenizer.
    pub fn new(name: impl Into<String>, model: Arc<MaskedLm>) -> Self {
        let name = name.into();
        let bos = model.bos_id();
        let given = usize::from(bos.is_some() || model.needs_first_token());
        let (tokenizer, owner) = (model.clone(), name.clone());
        let tokenise = move |text: &str| {
            let ids =
                tokenizer.tokenizer().and_then(|tokenizer| Ok(tokenizer.encode(text, false)?));
            let ids = ids.map_err(|error| failed(&owner, "cannot tokenise the text", error))?;
            Ok(bos.into_iter().chain(ids).collect())
        };
        let max_tokens = Some(model.facts().max_len);
        Self { max_tokens, ..Self::with_denoiser(name, model, given, tokenise) }
    }

    /// A reward on the ids that `tokenise` gives, of which the first `given` are not scored.
    pub fn with_denoiser(
        name: impl Into<String>,
        denoiser: Arc<dyn Denoiser>,
        given: usize,
        tokenise: impl Fn(&str) -> Result<Vec<TokenId>> + Send + Sync + 'static,
    ) -> Self {
        let (name, tokenise) = (name.into(), Box::new(tokenise));
        Self { name, denoiser, tokenise, given, max_tokens: None, samples: NELBO_SAMPLES }
    }

    /// How many of these are looked at.
    fn seen(&self, ids: &[TokenId]) -> usize {
        self.max_tokens.map_or(ids.len(), |most| most.min(ids.len()))
    }

    fn bound(&self, ids: &[TokenId], text: impl Fn() -> String) -> Result<Bound> {
        let ids = &ids[..self.seen(ids)];
        let scored = ids.len().saturating_sub(self.given);
        if scored == 0 {
            let message = format!("no token to score in the text {}", text());
            return Err(Error::reward(&self.name, message));
        }
        let masks = masks(ids, self.given, self.samples);
        let seqs: Vec<MaskedSeq> = masks
            .iter()
            .map(|mask| {
                let slot =
                    |(at, &id): (usize, &TokenId)| (!mask.positions.contains(&at)).then_some(id);
                MaskedSeq::from_slots(ids.iter().enumerate().map(slot))
            })
            .collect();
        let states: Vec<State<'_>> = seqs
            .iter()
            .map(|seq| State { seq, t: seq.n_masked() as f64 / scored as f64 })
            .collect();
        let wrap = |error: treasure_core::Error| match error {
            treasure_core::Error::GivenUp { .. } => Error::Interrupted { name: self.name.clone() },
            error => Error::reward(&self.name, "the denoiser failed").with_source(error),
        };
        let encodings = self.denoiser.encode(&states).map_err(wrap)?;
        let wanted: Vec<Vec<(usize, TokenId)>> =
            seqs.iter().map(|seq| seq.masked().map(|at| (at, ids[at])).collect()).collect();
        let bans = Bans::none();
        let questions: Vec<Question<'_>> = seqs
            .iter()
            .zip(&encodings)
            .zip(&wanted)
            .map(|((seq, encoding), logprobs)| Question {
                seq,
                encoding,
                bans: &bans,
                want: Want { logprobs, ..Want::default() },
            })
            .collect();
        let answers = self.denoiser.read(&questions).map_err(wrap)?;
        let nats: f64 = masks
            .iter()
            .zip(&answers)
            .map(|(mask, answer)| {
                let sum: f64 = answer.logprobs.iter().sum();
                -mask.weight * sum / mask.positions.len() as f64
            })
            .sum();
        Ok(Bound { nats, tokens: scored })
    }

    fn explained(&self, ids: &[TokenId], text: impl Fn() -> String) -> Result<Explained> {
        let Bound { nats, tokens } = self.bound(ids, text)?;
        let detail = Some(json!({ "nelbo_mean": nats, "tokens": tokens }));
        Ok(Explained { value: -nats, detail }.cut(ids.len(), self.seen(ids)))
    }
}

/// Positions to mask, with the weight of their mean in the bound; weights sum to 1.
struct Mask {
    positions: Vec<usize>,
    weight: f64,
}

fn masks(ids: &[TokenId], given: usize, samples: usize) -> Vec<Mask> {
    let scored = ids.len() - given;
    if scored < usize::BITS as usize - 1 && (1usize << scored) - 1 <= samples {
        return every_mask(given, scored);
    }
    let key = ids.iter().fold(Key::new(0), |key, &id| key.fold(u64::from(id)));
    (0..samples)
        .map(|sample| {
            let key = key.fold(sample as u64);
            let share = (sample as f64 + key.uniform()) / samples as f64;
            let count = ((share * scored as f64) as usize).min(scored - 1) + 1;
            let mut positions: Vec<usize> = (given..ids.len()).collect();
            for place in 0..count {
                let other = place + key.fold(place as u64).below(scored - place);
                positions.swap(place, other);
            }
            positions.truncate(count);
            Mask { positions, weight: 1.0 / samples as f64 }
        })
        .collect()
}

/// Every non-empty mask: sizes are equally likely, and so are the masks of one size.
fn every_mask(given: usize, scored: usize) -> Vec<Mask> {
    let choose =
        |count: usize| (0..count).fold(1.0, |ways, i| ways * (scored - i) as f64 / (i + 1) as f64);
    (1usize..1 << scored)
        .map(|bits| {
            let positions: Vec<usize> =
                (0..scored).filter(|bit| bits >> bit & 1 == 1).map(|bit| given + bit).collect();
            let weight = 1.0 / (scored as f64 * choose(positions.len()));
            Mask { positions, weight }
        })
        .collect()
}

impl TextReward for NelboReward {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let score = |text: &&str| Ok(-self.bound(&(self.tokenise)(text)?, || quoted(text))?.nats);
        texts.iter().map(score).collect()
    }

    fn range(&self) -> Range {
        Range::AT_MOST_ZERO
    }

    fn cut(&self, text: &str) -> Result<Option<usize>> {
        let ids = (self.tokenise)(text)?;
        Ok(Some(self.seen(&ids)).filter(|&seen| seen < ids.len()))
    }

    fn explain(&self, texts: &[&str]) -> Result<Vec<Explained>> {
        texts.iter().map(|text| self.explained(&(self.tokenise)(text)?, || quoted(text))).collect()
    }

    fn explain_ids(&self, ids: &[&[TokenId]]) -> Result<Vec<Explained>> {
        ids.iter().map(|ids| self.explained(ids, || format!("ids {ids:?}"))).collect()
    }
}
