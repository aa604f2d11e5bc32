//! A joint table over V^L as an exact denoiser.
//!
//! Guarantee: the prediction at a mask is the true conditional given the revealed tokens, so sampling
//! one token at a time is exact and every oracle of [`crate::exact`] applies.

use std::sync::atomic::{AtomicU64, Ordering};

use treasure_core::{
    Answer, Denoiser, Encoding, Error, Facts, Key, MaskedSeq, Question, Result, State, TokenId,
    answer_from_rows,
};

use crate::exact;

/// A distribution over all sequences of `len` tokens below `vocab`.
#[derive(Debug)]
pub struct JointTable {
    vocab: usize,
    len: usize,
    probs: Vec<f64>,
    facts: Facts,
    encoded: AtomicU64,
}

impl JointTable {
    /// A table from weights, one per sequence in lexicographic order; they are normalised.
    ///
    /// # Panics
    /// If the number of weights is not V^L or their sum is not positive.
    pub fn new(vocab: usize, len: usize, weights: &[f64]) -> Self {
        assert_eq!(weights.len(), vocab.pow(len as u32), "one weight per sequence");
        let sum: f64 = weights.iter().sum();
        assert!(sum > 0.0 && sum.is_finite(), "weights must have a positive sum");
        let probs = weights.iter().map(|weight| weight / sum).collect();
        let facts = Facts {
            // One id beyond the real tokens plays the model's own mask id.
            vocab_size: vocab + 1,
            never: vec![vocab as TokenId],
            time_agnostic: true,
            max_len: len,
        };
        Self { vocab, len, probs, facts, encoded: AtomicU64::new(0) }
    }

    /// A random table. Weights are cubed uniforms: some sequences are likely, none impossible.
    pub fn random(vocab: usize, len: usize, key: Key) -> Self {
        let weights: Vec<f64> = (0..vocab.pow(len as u32) as u64)
            .map(|i| key.fold(i).uniform().powi(3) + 1e-3)
            .collect();
        Self::new(vocab, len, &weights)
    }

    /// A table in which positions are independent, so that parallel sampling is exact as well.
    pub fn product(rows: &[Vec<f64>]) -> Self {
        let (vocab, len) = (rows[0].len(), rows.len());
        let weights: Vec<f64> = exact::sequences(vocab, len)
            .map(|x| x.iter().zip(rows).map(|(&token, row)| row[token as usize]).product())
            .collect();
        Self::new(vocab, len, &weights)
    }

    /// The same table as a denoiser whose prediction sharpens as time passes: a time-conditioned model.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.facts.time_agnostic = false;
        self
    }

    /// The number of real tokens.
    pub fn tokens(&self) -> usize {
        self.vocab
    }

    /// The probability of every sequence, in lexicographic order.
    pub fn probs(&self) -> &[f64] {
        &self.probs
    }

    /// The probability of a complete sequence.
    pub fn prob(&self, tokens: &[TokenId]) -> f64 {
        self.probs[exact::index(self.vocab, tokens)]
    }

    /// States encoded so far, counted on the denoiser's side.
    pub fn encoded(&self) -> u64 {
        self.encoded.load(Ordering::Relaxed)
    }

    /// The true conditional distribution at every masked position, in position order.
    pub fn conditionals(&self, seq: &MaskedSeq) -> Vec<Vec<f64>> {
        let positions: Vec<usize> = seq.masked().collect();
        let mut rows = vec![vec![0.0; self.vocab]; positions.len()];
        let mut total = 0.0;
        for (x, &p) in exact::sequences(self.vocab, self.len).zip(&self.probs) {
            if seq.slots().zip(&x).all(|(slot, token)| slot.is_none_or(|given| given == *token)) {
                total += p;
                for (row, &position) in rows.iter_mut().zip(&positions) {
                    row[x[position] as usize] += p;
                }
            }
        }
        for p in rows.iter_mut().flatten() {
            *p /= total;
        }
        rows
    }
}

impl Denoiser for JointTable {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        self.encoded.fetch_add(batch.len() as u64, Ordering::Relaxed);
        batch
            .iter()
            .map(|state| {
                if state.seq.len() != self.len {
                    let message =
                        format!("expected {} positions, got {}", self.len, state.seq.len());
                    return Err(Error::Denoiser { message, source: None });
                }
                let sharpness = if self.facts.time_agnostic { 1.0 } else { 2.0 - state.t };
                let rows: Vec<Vec<f64>> = self
                    .conditionals(state.seq)
                    .into_iter()
                    .map(|row| {
                        let mut row: Vec<f64> = row.iter().map(|p| sharpness * p.ln()).collect();
                        row.push(f64::NEG_INFINITY); // the mask id
                        row
                    })
                    .collect();
                let bytes = rows.len() * (self.vocab + 1) * 8;
                Ok(Encoding::new(rows, bytes))
            })
            .collect()
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        batch
            .iter()
            .map(|question| {
                let rows: &Vec<Vec<f64>> =
                    question.encoding.downcast().ok_or_else(|| Error::Denoiser {
                        message: "the encoding is not a joint table's".into(),
                        source: None,
                    })?;
                Ok(answer_from_rows(question, rows))
            })
            .collect()
    }
}
