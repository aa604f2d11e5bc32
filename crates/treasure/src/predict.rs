//! What a denoiser would put at each mask.

use serde::{Deserialize, Serialize};
use treasure_core::{At, Bans, Denoiser as _, MaskedSeq, Question, State, Want};
use treasure_models::MaskedLm;
use treasure_text::Start;

use crate::{Error, Result, Template};

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

/// The likeliest tokens at a mask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The position, from 0.
    pub position: usize,
    /// The tokens, likeliest first.
    pub top: Vec<Guess>,
}

/// The state of a text with holes.
pub(crate) fn state_of(model: &MaskedLm, text: &str) -> Result<MaskedSeq> {
    Ok(Start::template(model, &Template::parse(text)?.parts)?.state)
}

/// The state of ids, `None` where masked.
pub(crate) fn state_of_ids(model: &MaskedLm, slots: Vec<Option<u32>>) -> Result<MaskedSeq> {
    let vocabulary = model.facts().vocab_size;
    if let Some(id) = slots.iter().flatten().find(|&&id| id as usize >= vocabulary) {
        return Err(Error::request(format!("ids: expected ids below {vocabulary}, got {id}")));
    }
    if slots.iter().all(Option::is_some) {
        return Err(
            Error::request("ids: expected at least one mask").with_hint("write M for a mask")
        );
    }
    Ok(MaskedSeq::from_slots(slots))
}

/// The likeliest tokens at every mask of a state.
pub(crate) fn predict(
    model: &MaskedLm,
    state: &MaskedSeq,
    top: usize,
    sigma: Option<f64>,
    named: bool,
) -> Result<Vec<Predicted>> {
    let encoding = match sigma {
        Some(sigma) if !(sigma.is_finite() && sigma >= 0.0) => {
            return Err(Error::request(format!(
                "sigma: expected a number of at least 0, got {sigma}"
            )));
        }
        Some(_) if model.facts().time_agnostic => {
            return Err(Error::request("sigma: this model does not look at the noise level")
                .with_hint("leave it out: only time-conditioned models use it"));
        }
        Some(sigma) => model.encode_at_sigma(&[state], sigma)?,
        // All masked is the start of the diffusion, t = 1.
        None => model
            .encode(&[State { seq: state, t: state.n_masked() as f64 / state.len() as f64 }])?,
    };
    let asked: Vec<At> = state.masked().map(|position| At { position, k: top }).collect();
    let want = Want { top: &asked, ..Want::default() };
    let bans = Bans::none();
    let question = Question { seq: state, encoding: &encoding[0], bans: &bans, want };
    let answer = model.read(&[question])?.swap_remove(0);
    // Ids need no tokenizer: one that is not there is no reason to fetch it.
    let tokenizer = if named { Some(model.tokenizer()?) } else { model.tokenizer_at_hand() };
    let mut positions = Vec::new();
    for (at, list) in asked.iter().zip(&answer.top) {
        if list.is_empty() || list.iter().any(|guess| guess.logprob.is_nan()) {
            return Err(Error::new(
                crate::ErrorKind::Model,
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
