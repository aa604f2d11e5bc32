//! A denoiser from a function: states in, rows of logits out. Slow and plain; what a model on another
//! device, a table or a toy needs to be searched.
//!
//! Its answers spell out the meaning of every part of a [`Want`]: fast implementations are compared
//! with it.
//!
//! [`Want`]: crate::Want

use crate::{
    Answer, Candidate, Denoiser, Encoding, Error, Facts, MaskedSeq, Question, Result, State,
    TokenId,
};

/// Rows of logits of one state, one for each masked position, in position order.
pub type Rows = Vec<Vec<f64>>;

/// A function from states to rows of logits, as a denoiser.
///
/// ```
/// use treasure_core::{Dense, Facts, State};
/// // Three tokens and a mask; the likeliest token is the position modulo 3.
/// let facts = Facts { vocab_size: 4, never: vec![3], time_agnostic: true, max_len: 16 };
/// let model = Dense::new(facts, |states: &[State<'_>]| {
///     let row = |position: usize| (0..4).map(|id| f64::from(id == position % 3)).collect();
///     Ok(states.iter().map(|state| state.seq.masked().map(row).collect()).collect())
/// });
/// # let _: &dyn treasure_core::Denoiser = &model;
/// ```
pub struct Dense<F> {
    facts: Facts,
    logits: F,
}

impl<F> Dense<F>
where
    F: Fn(&[State<'_>]) -> Result<Vec<Rows>> + Send + Sync,
{
    /// A denoiser with these facts. The function must treat each state on its own.
    pub fn new(facts: Facts, logits: F) -> Self {
        Self { facts, logits }
    }
}

impl<F> Denoiser for Dense<F>
where
    F: Fn(&[State<'_>]) -> Result<Vec<Rows>> + Send + Sync,
{
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let wrong = |message: String| Error::Denoiser { message, source: None };
        let all = (self.logits)(batch)?;
        if all.len() != batch.len() {
            let message = format!("expected rows for {} states, got {}", batch.len(), all.len());
            return Err(wrong(message));
        }
        let check = |(state, mut rows): (&State<'_>, Rows)| {
            let masks = state.seq.n_masked();
            if rows.len() != masks {
                return Err(wrong(format!("expected {masks} rows, got {}", rows.len())));
            }
            for row in &mut rows {
                if row.len() != self.facts.vocab_size {
                    let expected = self.facts.vocab_size;
                    return Err(wrong(format!("expected {expected} logits, got {}", row.len())));
                }
                if row.iter().any(|logit| logit.is_nan() || *logit == f64::INFINITY) {
                    return Err(wrong("expected logits, got one that is no number".into()));
                }
                for &never in &self.facts.never {
                    if let Some(logit) = row.get_mut(never as usize) {
                        *logit = f64::NEG_INFINITY;
                    }
                }
            }
            let bytes = masks * self.facts.vocab_size * 8;
            Ok(Encoding::new(rows, bytes))
        };
        batch.iter().zip(all).map(check).collect()
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        let rows = |question: &Question<'_>| {
            question.encoding.downcast::<Rows>().map(|rows| answer_from_rows(question, rows))
        };
        batch.iter().map(rows).collect::<Option<_>>().ok_or_else(|| Error::Denoiser {
            message: "the encoding is another denoiser's".into(),
            source: None,
        })
    }
}

/// Removes the banned tokens from a row and normalises what is left.
fn allowed(row: &[f64], banned: &[TokenId]) -> Vec<f64> {
    let mut row = row.to_vec();
    for &token in banned {
        if let Some(entry) = row.get_mut(token as usize) {
            *entry = f64::NEG_INFINITY;
        }
    }
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return row;
    }
    let log_sum = top + row.iter().map(|logprob| (logprob - top).exp()).sum::<f64>().ln();
    row.iter().map(|logprob| logprob - log_sum).collect()
}

/// The tokens of a row by falling probability, ties by lowest id, impossible ones left out.
fn ranked(row: &[f64]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = (0..)
        .zip(row)
        .filter(|(_, logprob)| **logprob > f64::NEG_INFINITY)
        .map(|(token, &logprob)| Candidate { token, logprob })
        .collect();
    all.sort_by(|a, b| b.logprob.total_cmp(&a.logprob).then(a.token.cmp(&b.token)));
    all
}

/// The first token, in id order, whose cumulative probability passes `u`.
fn inverse_cdf(row: &[f64], u: f64) -> TokenId {
    let mut cumulative = 0.0;
    let mut last = 0;
    for (token, logprob) in (0..).zip(row) {
        let p = logprob.exp();
        cumulative += p;
        if p > 0.0 {
            last = token;
        }
        if u < cumulative {
            return token;
        }
    }
    last
}

/// Answers a question from one row of log-probabilities per masked position, in position order. What
/// lies outside the state is left out, and counted as missing by whoever asked.
pub fn answer_from_rows(question: &Question<'_>, rows: &[Vec<f64>]) -> Answer {
    let want = question.want;
    let positions: Vec<usize> = MaskedSeq::masked(question.seq).collect();
    let row_at = |position: usize| -> Option<Vec<f64>> {
        let index = positions.binary_search(&position).ok()?;
        Some(allowed(rows.get(index)?, &question.bans.at(position)))
    };
    let mut answer = Answer::default();
    if want.argmax {
        for row in positions.iter().filter_map(|&position| row_at(position)) {
            let Some(best) = ranked(&row).into_iter().next() else { continue };
            answer.argmax.push(best.token);
            if want.confidence {
                answer.confidence.push(best.logprob);
            }
        }
    }
    for at in want.top {
        let mut top = ranked(&row_at(at.position).unwrap_or_default());
        top.truncate(at.k);
        answer.top.push(top);
    }
    let draw = |draw: &crate::Draw| Some(inverse_cdf(&row_at(draw.position)?, draw.u));
    answer.draws = want.draws.iter().filter_map(draw).collect();
    let logprob =
        |&(position, token): &(usize, TokenId)| row_at(position)?.get(token as usize).copied();
    answer.logprobs = want.logprobs.iter().filter_map(logprob).collect();
    let whole = |&position: &usize| {
        Some(row_at(position)?.into_iter().map(|logprob| logprob as f32).collect())
    };
    answer.rows = want.rows.iter().filter_map(whole).collect();
    answer
}
