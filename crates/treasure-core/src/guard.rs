//! Checks at the door: panics, row counts and numbers of a denoiser or a reward become errors that
//! name the culprit.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{Answer, Error, Question, Result, Reward, View};

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

fn denoiser_error(message: String) -> Error {
    Error::Denoiser { message, source: None }
}

fn reward_error(reward: &dyn Reward, message: String) -> Error {
    Error::Reward { name: reward.name().to_owned(), message, source: None }
}

/// Runs a call into the denoiser.
pub(crate) fn denoiser<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(denoiser_error(format!("panicked: {}", panic_text(&*panic)))))
}

/// Runs a call into a reward.
pub(crate) fn reward<T>(reward: &dyn Reward, call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        Err(reward_error(reward, format!("panicked: {}", panic_text(&*panic))))
    })
}

/// Checks how many rows a denoiser returned.
pub(crate) fn rows(what: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(denoiser_error(format!("expected {expected} {what}, got {got}")))
}

/// Checks that an answer has what was asked for.
pub(crate) fn answer(question: &Question<'_>, answer: &Answer, vocab: usize) -> Result<()> {
    let want = question.want;
    let masks = question.seq.n_masked();
    rows("argmax tokens", if want.argmax { masks } else { 0 }, answer.argmax.len())?;
    rows(
        "confidences",
        if want.argmax && want.confidence { masks } else { 0 },
        answer.confidence.len(),
    )?;
    rows("top lists", want.top.len(), answer.top.len())?;
    rows("draws", want.draws.len(), answer.draws.len())?;
    rows("log-probabilities", want.logprobs.len(), answer.logprobs.len())?;
    rows("rows of logits", want.rows.len(), answer.rows.len())?;
    for (position, row) in want.rows.iter().zip(&answer.rows) {
        rows("logits", vocab, row.len())?;
        if row.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            let message = format!("expected logits at position {position}, got no number");
            return Err(denoiser_error(message));
        }
    }
    for (at, top) in want.top.iter().zip(&answer.top) {
        if top.is_empty() || top.len() > at.k {
            return Err(denoiser_error(format!(
                "expected 1 to {} tokens at position {}, got {}",
                at.k,
                at.position,
                top.len()
            )));
        }
        if let Some(bad) = top.iter().find(|candidate| candidate.logprob.is_nan()) {
            return Err(denoiser_error(format!(
                "expected a log-probability for token {} at position {}, got NaN",
                bad.token, at.position
            )));
        }
    }
    let tokens = answer.argmax.iter().chain(&answer.draws);
    let mut all =
        tokens.copied().chain(answer.top.iter().flatten().map(|candidate| candidate.token));
    if let Some(token) = all.find(|&token| token as usize >= vocab) {
        return Err(denoiser_error(format!("expected token ids below {vocab}, got {token}")));
    }
    if let Some(bad) =
        answer.logprobs.iter().chain(&answer.confidence).find(|number| number.is_nan())
    {
        return Err(denoiser_error(format!("expected a log-probability, got {bad}")));
    }
    Ok(())
}

/// Checks how many numbers a reward returned, and that each is finite.
pub(crate) fn scores(reward: &dyn Reward, views: &[&View], scores: &[f64]) -> Result<()> {
    if scores.len() != views.len() {
        let message = format!("expected {} scores, got {}", views.len(), scores.len());
        return Err(reward_error(reward, message));
    }
    match views.iter().zip(scores).find(|(_, score)| !score.is_finite()) {
        Some((view, score)) => Err(reward_error(
            reward,
            format!("expected a finite number, got {score} for {}", excerpt(view)),
        )),
        None => Ok(()),
    }
}

/// A view, short enough for a message.
fn excerpt(view: &View) -> String {
    match view {
        View::Text(text) => {
            let mut short: String = text.chars().take(80).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            format!("text {short:?}")
        }
        View::Tokens(tokens) if tokens.len() > 24 => {
            format!("tokens {:?}… ({} in all)", &tokens[..24], tokens.len())
        }
        View::Tokens(tokens) => format!("tokens {tokens:?}"),
    }
}
