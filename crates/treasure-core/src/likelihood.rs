//! The negative ELBO of Appendix B, estimated with its standard error.
//!
//! The paper's formulas have the wrong sign (α' < 0 meets −log p); here the loss is positive and bounds
//! −log p(x) of the sampler with as many steps from above. The sampler starts from masks alone, so the
//! bound does too: tokens are kept with probability (α − α(1))/(1 − α(1)), which is α where α(1) = 0 and
//! leaves the hazard −α'/(1 − α) as it is. With an exact denoiser and α(0) = 1 the continuous bound is
//! −log p(x) of the joint itself, whatever α(1). The mask-count form takes α(0) = 1 for granted and asks
//! a time-conditioned model at the time at which so many masks are expected.
//! A likelihood is no search: it calls the denoiser itself and reports how often.

use serde::Serialize;

use crate::{
    Bans, Denoiser, Error, Key, MaskedSeq, Question, Result, Schedule, State, TokenId, Want, guard,
    options::at_least_one,
};

/// Which form of the bound is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NelboForm {
    /// T discrete steps; a sample draws one step.
    Discrete {
        /// T.
        steps: usize,
    },
    /// The continuous limit; a sample draws α among corruptions that mask something.
    Continuous,
    /// The continuous limit for α from 1 to 0, in its low-variance form: a sample draws the number n
    /// of masks uniformly, then which.
    MaskCount,
}

/// An estimate of the bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Nelbo {
    /// The bound on −log p(x | context), in nats, for the whole sequence.
    pub nats: f64,
    /// Its standard error; 0 for one sample, where none is known.
    pub standard_error: f64,
    /// Tokens it covers: the masks of the context.
    pub tokens: usize,
    /// Forward passes it took.
    pub nfe: u64,
}

/// One sampled corruption with the weight of its cross entropy.
struct Corruption {
    seq: MaskedSeq,
    t: f64,
    weight: f64,
    wanted: Vec<(usize, TokenId)>,
}

const BATCH: usize = 16;

/// Estimates the bound for `tokens` at the masks of `context` (all masks: the whole sequence).
///
/// The result depends on `key` and `samples` only, not on the batching of the denoiser.
pub fn nelbo(
    denoiser: &dyn Denoiser,
    schedule: &dyn Schedule,
    tokens: &[TokenId],
    context: &MaskedSeq,
    form: NelboForm,
    samples: usize,
    key: Key,
) -> Result<Nelbo> {
    at_least_one("samples", samples)?;
    if let NelboForm::Discrete { steps } = form {
        at_least_one("steps", steps)?;
    }
    check_context(tokens, context, denoiser)?;
    let corruptions: Vec<Corruption> = (0..samples)
        .flat_map(|sample| corruptions(schedule, tokens, context, form, key.fold(sample as u64)))
        .collect();
    let mut terms = vec![0.0; samples];
    let mut nfe = 0;
    let per_sample = corruptions.len() / samples;
    let open: Vec<usize> = (0..corruptions.len())
        .filter(|&i| !corruptions[i].wanted.is_empty() && corruptions[i].weight != 0.0)
        .collect();
    for batch in open.chunks(BATCH) {
        let states: Vec<_> = batch
            .iter()
            .map(|&i| State { seq: &corruptions[i].seq, t: corruptions[i].t })
            .collect();
        let encodings = guard::denoiser(|| denoiser.encode(&states))?;
        guard::rows("encodings", states.len(), encodings.len())?;
        nfe += states.len() as u64;
        let bans = Bans::none();
        let questions: Vec<_> = (batch.iter().zip(&encodings))
            .map(|(&i, encoding)| Question {
                seq: &corruptions[i].seq,
                encoding,
                bans: &bans,
                want: Want { logprobs: &corruptions[i].wanted, ..Want::default() },
            })
            .collect();
        let answers = guard::denoiser(|| denoiser.read(&questions))?;
        guard::rows("answers", questions.len(), answers.len())?;
        for ((&i, question), answer) in batch.iter().zip(&questions).zip(&answers) {
            guard::answer(question, answer, denoiser.facts().vocab_size)?;
            let loss: f64 = answer.logprobs.iter().map(|logprob| -logprob).sum();
            terms[i / per_sample] += corruptions[i].weight * loss;
        }
    }
    let n = samples as f64;
    let mean = terms.iter().sum::<f64>() / n;
    let spread: f64 = terms.iter().map(|term| (term - mean).powi(2)).sum();
    let standard_error = if samples > 1 { (spread / (n - 1.0) / n).sqrt() } else { 0.0 };
    Ok(Nelbo { nats: mean, standard_error, tokens: context.n_masked(), nfe })
}

fn check_context(tokens: &[TokenId], context: &MaskedSeq, denoiser: &dyn Denoiser) -> Result<()> {
    let invalid = |what, expected: String, got: String| Err(Error::Invalid { what, expected, got });
    if tokens.len() != context.len() {
        let expected = format!("{} tokens, as in the context", context.len());
        return invalid("sequence", expected, tokens.len().to_string());
    }
    if context.n_masked() == 0 {
        return invalid("context", "at least one mask".into(), "0 masks".into());
    }
    let vocab = denoiser.facts().vocab_size;
    if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) {
        return invalid("sequence", format!("token ids below {vocab}"), token.to_string());
    }
    for (position, (slot, &token)) in context.slots().zip(tokens).enumerate() {
        if slot.is_some_and(|given| given != token) {
            let expected = format!("token {token} at position {position}, as in the sequence");
            return invalid("context", expected, format!("{slot:?}"));
        }
    }
    Ok(())
}

/// The corruptions of one sample: one for the diffusion term, one for what is left masked at t = 0.
fn corruptions(
    schedule: &dyn Schedule,
    tokens: &[TokenId],
    context: &MaskedSeq,
    form: NelboForm,
    key: Key,
) -> [Corruption; 2] {
    let masked_with = |chance: f64, key: Key| -> Vec<usize> {
        context.masked().filter(|&at| key.fold(at as u64).uniform() < chance).collect()
    };
    let corruption = |masks: Vec<usize>, t: f64, weight: f64| {
        let wanted = masks.iter().map(|&at| (at, tokens[at])).collect();
        let mut slots: Vec<_> = tokens.iter().copied().map(Some).collect();
        for at in masks {
            slots[at] = None;
        }
        Corruption { seq: MaskedSeq::from_slots(slots), t, weight, wanted }
    };
    // The chance that a token is kept in a process that begins with masks alone.
    let prior = schedule.alpha(1.0);
    let kept = |t: f64| ((schedule.alpha(t) - prior) / (1.0 - prior)).clamp(0.0, 1.0);
    let left = 1.0 - kept(0.0);
    let reconstruction = corruption(masked_with(left, key.fold(1)), 0.0, 1.0);
    let diffusion = match form {
        NelboForm::Discrete { steps } => {
            // Σ_i (α_s − α_t)/(1 − α_t) E[…] with t = i/T, s = (i − 1)/T: one i, weighted by T.
            let i = key.fold(2).below(steps);
            let (s, t) = (i as f64 / steps as f64, (i + 1) as f64 / steps as f64);
            let weight = steps as f64 * schedule.reveal_prob(s, t);
            corruption(masked_with(1.0 - kept(t), key.fold(3)), t, weight)
        }
        NelboForm::Continuous => {
            // ∫ −α'/(1 − α) E[…] dt = ∫ E[…]/(1 − α) dα from 0 to what is kept at t = 0. Without masks the
            // loss is 0, so draw only corruptions with a mask: their share 1 − αᴸ makes the density
            // (1 − αᴸ)/(1 − α) = Σ_{k<L} αᵏ, a mixture of powers, and the weight a constant.
            let free: Vec<usize> = context.masked().collect();
            let high = kept(0.0);
            let power = |base: f64, k: usize| base.powi(k as i32 + 1);
            let masses: Vec<f64> =
                (0..free.len()).map(|k| power(high, k) / (k + 1) as f64).collect();
            let total: f64 = masses.iter().sum();
            let mut left = key.fold(2).uniform() * total;
            let k = masses
                .iter()
                .position(|mass| {
                    left -= mass;
                    left < 0.0
                })
                .unwrap_or(free.len() - 1);
            let u = key.fold(4).uniform();
            let alpha = (u * power(high, k)).powf(1.0 / (k + 1) as f64);
            // The first mask is at j with probability ∝ αʲ; behind it masks are independent.
            let some = 1.0 - alpha.powi(free.len() as i32);
            let first = (1.0 - key.fold(5).uniform() * some).ln() / alpha.ln();
            let first = (first as usize).min(free.len() - 1);
            let masks = (free.iter().enumerate())
                .filter(|&(i, &at)| {
                    let drawn = || key.fold(3).fold(at as u64).uniform() < 1.0 - alpha;
                    i == first || (i > first && drawn())
                })
                .map(|(_, &at)| at)
                .collect();
            corruption(masks, schedule.alpha_inv(prior + (1.0 - prior) * alpha), total)
        }
        NelboForm::MaskCount => {
            // For α from 1 to 0 the integral is Σ_n (1/n) E over the sets of n masks: n uniform.
            let mut free: Vec<usize> = context.masked().collect();
            let total = free.len();
            let n = 1 + key.fold(2).below(total);
            let masks: Vec<usize> = (0..n)
                .map(|i| free.swap_remove(key.fold(3).fold(i as u64).below(free.len())))
                .collect();
            let t = schedule.alpha_inv(1.0 - n as f64 / total as f64);
            return [
                corruption(masks, t, total as f64 / n as f64),
                corruption(Vec::new(), 0.0, 0.0),
            ];
        }
    };
    [diffusion, reconstruction]
}
