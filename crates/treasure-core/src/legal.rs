//! Questions about a state answered within a constraint: from whole rows of logits, restricted to the
//! tokens that are legal.
//!
//! Top tokens, draws and log-probabilities are of the row restricted to its legal set and normalised
//! again; draws of one text see those before them; the likeliest tokens of all masks are the likeliest
//! *legal* completion. [`Answer::top_mass`] and [`Answer::draw_mass`] say how much of the row was legal.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Answer, Candidate, Draw, Error, Fills, Legal, MaskedSeq, Result, TokenId, TokenSet, Want,
};

/// A state's prediction under a constraint: completes its children.
pub struct Prediction {
    masks: Vec<usize>,
    rows: Vec<Restricted>,
    fills: Arc<dyn Fills>,
}

impl std::fmt::Debug for Prediction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prediction({} masks)", self.masks.len())
    }
}

impl Prediction {
    /// The likeliest legal completion with these tokens placed.
    pub fn complete(&self, placed: &[(usize, TokenId)]) -> Result<Vec<TokenId>> {
        self.fills.with(placed).ok_or_else(|| Error::Invalid {
            what: "constraint",
            expected: "tokens that leave a legal completion".into(),
            got: format!("{placed:?}"),
        })
    }

    /// The log-probability of a token at a masked position, among the legal ones there.
    pub fn logprob(&self, position: usize, token: TokenId) -> f64 {
        let row = self.masks.binary_search(&position).ok().map(|index| &self.rows[index]);
        row.map_or(f64::NEG_INFINITY, |row| row.logprob(token))
    }
}

/// A row of logits with those that are not legal at −∞.
struct Restricted {
    logits: Vec<f32>,
    log_sum: f64,
    /// The share of the row's mass that is legal, as a logarithm.
    log_mass: f64,
}

fn log_sum(logits: &[f32]) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if top == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let mass: f64 = logits.iter().map(|&logit| f64::from(logit - top).exp()).sum();
    f64::from(top) + mass.ln()
}

impl Restricted {
    fn new(row: &[f32], legal: &TokenSet) -> Self {
        let mut logits = vec![f32::NEG_INFINITY; row.len()];
        for token in legal.iter() {
            if let Some(&logit) = row.get(token as usize) {
                logits[token as usize] = logit;
            }
        }
        let all = log_sum(row);
        let mut sum = log_sum(&logits);
        let log_mass = if all == f64::NEG_INFINITY { 0.0 } else { sum - all };
        if sum == f64::NEG_INFINITY {
            // The model gives no legal token any mass: they count alike.
            for token in legal.iter() {
                if let Some(logit) = logits.get_mut(token as usize) {
                    *logit = 0.0;
                }
            }
            sum = log_sum(&logits);
        }
        Self { logits, log_sum: sum, log_mass }
    }

    fn logprob(&self, token: TokenId) -> f64 {
        let logit = self.logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        if logit == f32::NEG_INFINITY { f64::NEG_INFINITY } else { f64::from(logit) - self.log_sum }
    }

    fn top(&self, k: usize) -> Vec<Candidate> {
        let possible = |&(_, &logit): &(TokenId, &f32)| logit > f32::NEG_INFINITY;
        let mut ranked: Vec<(TokenId, &f32)> = (0..).zip(&self.logits).filter(possible).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(&b.0)));
        ranked.truncate(k);
        let candidate = |(token, _)| Candidate { token, logprob: self.logprob(token) };
        ranked.into_iter().map(candidate).collect()
    }

    /// Inverse CDF over increasing ids.
    fn draw(&self, u: f64) -> TokenId {
        let (mut below, mut last) = (0.0, 0);
        for (token, &logit) in (0..).zip(&self.logits) {
            if logit > f32::NEG_INFINITY {
                last = token;
                below += (f64::from(logit) - self.log_sum).exp();
                if u < below {
                    break;
                }
            }
        }
        last
    }
}

/// The positions whose rows a question needs under a constraint, in increasing order.
pub(crate) fn positions(seq: &MaskedSeq, want: &Want<'_>) -> Vec<usize> {
    if want.argmax {
        return seq.masked().collect();
    }
    let mut positions: Vec<usize> = (want.top.iter().map(|at| at.position))
        .chain(want.draws.iter().map(|draw| draw.position))
        .chain(want.logprobs.iter().map(|&(position, _)| position))
        .collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// Answers a question from the rows at [`positions`].
pub(crate) fn answer(
    seq: &MaskedSeq,
    legal: &dyn Legal,
    want: &Want<'_>,
    rows: Vec<Vec<f32>>,
) -> Result<Answer> {
    let asked = positions(seq, want);
    let mut set = TokenSet::default();
    let mut restrict = |legal: &dyn Legal, index: usize| {
        legal.allowed(asked[index], rows[index].len(), &mut set);
        Restricted::new(&rows[index], &set)
    };
    let index_of = |position: usize| {
        asked.binary_search(&position).map_err(|_| Error::Invalid {
            what: "question",
            expected: "a masked position".into(),
            got: position.to_string(),
        })
    };
    let mut restricted: BTreeMap<usize, Restricted> = BTreeMap::new();
    let mut answer = Answer::default();
    for at in want.top {
        let index = index_of(at.position)?;
        let row = restricted.entry(index).or_insert_with(|| restrict(legal, index));
        answer.top.push(row.top(at.k));
        answer.top_mass.push(row.log_mass);
    }
    // Tokens of one text are drawn one after another, each among what the ones before leave.
    for text in want.draws.chunk_by(|a, b| a.text == b.text) {
        let mut later: Option<Box<dyn Legal>> = None;
        for (number, &Draw { position, u, .. }) in text.iter().enumerate() {
            let index = index_of(position)?;
            let (token, log_mass) = match &later {
                None => {
                    let row = restricted.entry(index).or_insert_with(|| restrict(legal, index));
                    (row.draw(u), row.log_mass)
                }
                Some(later) => {
                    let row = restrict(&**later, index);
                    (row.draw(u), row.log_mass)
                }
            };
            if number + 1 < text.len() {
                later.get_or_insert_with(|| legal.again()).place(position, token)?;
            }
            answer.draws.push(token);
            answer.draw_mass.push(log_mass);
        }
    }
    for &(position, token) in want.logprobs {
        let index = index_of(position)?;
        let row = restricted.entry(index).or_insert_with(|| restrict(legal, index));
        answer.logprobs.push(row.logprob(token));
    }
    if want.argmax {
        for index in 0..asked.len() {
            restricted.entry(index).or_insert_with(|| restrict(legal, index));
        }
        let fills = legal.fills(&rows)?;
        let prediction =
            Prediction { masks: asked, rows: restricted.into_values().collect(), fills };
        let whole = prediction.complete(&[])?;
        for (row, &position) in prediction.rows.iter().zip(&prediction.masks) {
            answer.argmax.push(whole[position]);
            if want.confidence {
                answer.confidence.push(row.logprob(whole[position]));
            }
        }
        answer.prediction = Some(Arc::new(prediction));
    }
    Ok(answer)
}
