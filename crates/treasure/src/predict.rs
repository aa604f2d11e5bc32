//! What a denoiser would put at each mask.

use std::fmt;

use serde::{Deserialize, Serialize};
use treasure_core::{At, Bans, Denoiser as _, Encoding, MaskedSeq, Question, State, Want};
use treasure_models::{MaskedLm, Tokenizer};
use treasure_text::{Start, TextModel};

use crate::{Error, ErrorKind, Result, Template, words};

/// A token and how likely it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guess {
    /// Its id.
    pub id: u32,
    /// Its text; none without a tokenizer.
    pub token: Option<String>,
    /// Its log-probability, after the two denoiser constraints.
    pub logprob: f64,
}

impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.token {
            Some(token) => write!(f, "{token:?}")?,
            None => write!(f, "{}", self.id)?,
        }
        write!(f, " {}", words::probability(self.logprob.exp()))
    }
}

/// The likeliest tokens at a mask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The position, from 0.
    pub position: usize,
    /// The tokens, likeliest first.
    pub top: Vec<Guess>,
}

impl fmt::Display for Predicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {}", self.position)?;
        self.top.iter().try_for_each(|guess| write!(f, "   {guess}"))
    }
}

/// The state of a text with holes.
pub(crate) fn state_of(model: &dyn TextModel, text: &str) -> Result<MaskedSeq> {
    Ok(Start::template(model, &Template::parse(text)?.parts)?.state)
}

/// The state of ids, `None` where masked.
pub(crate) fn state_of_ids(model: &MaskedLm, slots: Vec<Option<u32>>) -> Result<MaskedSeq> {
    let vocabulary = model.facts().vocab_size;
    if let Some(id) = slots.iter().flatten().find(|&&id| id as usize >= vocabulary) {
        return Err(Error::request(format!("ids: expected ids below {vocabulary}, got {id}"))
            .with_hint("the model has no token of that id; M stands for a mask"));
    }
    if slots.iter().all(Option::is_some) {
        return Err(
            Error::request("ids: expected at least one mask").with_hint("write M for a mask")
        );
    }
    Ok(MaskedSeq::from_slots(slots))
}

/// A state run through a denoiser at the time of its masks.
pub(crate) fn encoded(model: &dyn TextModel, state: &MaskedSeq) -> Result<Encoding> {
    // All masked is the start of the diffusion, t = 1.
    let t = state.n_masked() as f64 / state.len() as f64;
    let mut encodings = model.encode(&[State { seq: state, t }])?;
    encodings.pop().ok_or_else(|| Error::new(ErrorKind::Model, "expected an encoding, got none"))
}

/// A state run through a checkpoint, at a noise level if one is given.
pub(crate) fn encoded_at(
    model: &MaskedLm,
    state: &MaskedSeq,
    sigma: Option<f64>,
) -> Result<Encoding> {
    match sigma {
        Some(sigma) if !(sigma.is_finite() && sigma >= 0.0) => {
            Err(Error::request(format!("sigma: expected a number of at least 0, got {sigma}"))
                .with_hint("leave it out: it follows from the share of masks"))
        }
        Some(_) if model.facts().time_agnostic => {
            Err(Error::request("sigma: this model does not look at the noise level")
                .with_hint("leave it out: only time-conditioned models use it"))
        }
        Some(sigma) => Ok(model.encode_at_sigma(&[state], sigma)?.swap_remove(0)),
        None => encoded(model, state),
    }
}

/// The likeliest tokens at every mask of a state.
pub(crate) fn predict(
    model: &dyn TextModel,
    tokenizer: Option<&Tokenizer>,
    state: &MaskedSeq,
    encoding: Encoding,
    top: usize,
) -> Result<Vec<Predicted>> {
    let asked: Vec<At> = state.masked().map(|position| At { position, k: top }).collect();
    let want = Want { top: &asked, ..Want::default() };
    let bans = Bans::none();
    let question = Question { seq: state, encoding: &encoding, bans: &bans, want };
    let answer = model.read(&[question])?.pop().unwrap_or_default();
    let mut positions = Vec::new();
    for (at, list) in asked.iter().zip(&answer.top) {
        if list.is_empty() || list.iter().any(|guess| guess.logprob.is_nan()) {
            return Err(Error::new(
                ErrorKind::Model,
                format!("position {}: the model predicts no number", at.position),
            )
            .with_hint("the checkpoint has weights that are not finite"));
        }
        let guess = |candidate: &treasure_core::Candidate| Guess {
            id: candidate.token,
            token: tokenizer.and_then(|tokenizer| tokenizer.token_text(candidate.token)),
            logprob: candidate.logprob,
        };
        positions.push(Predicted { position: at.position, top: list.iter().map(guess).collect() });
    }
    Ok(positions)
}
