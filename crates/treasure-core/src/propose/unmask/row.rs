//! One row of logits as LLaDA's and Dream's samplers look at it: which token, and how sure.

use crate::{Key, TokenId};

/// A row of logits in f64.
#[derive(Clone, Debug)]
pub(super) struct Row(Vec<f64>);

impl Row {
    pub(super) fn new(logits: &[f32]) -> Self {
        Self(logits.iter().map(|&logit| f64::from(logit)).collect())
    }

    /// The same without some tokens.
    pub(super) fn without(&self, tokens: &[TokenId]) -> Self {
        let mut row = self.clone();
        for &token in tokens {
            if let Some(logit) = row.0.get_mut(token as usize) {
                *logit = f64::NEG_INFINITY;
            }
        }
        row
    }

    /// The same at a temperature; 0 leaves it as it is.
    pub(super) fn tempered(&self, temperature: f64) -> Self {
        match temperature > 0.0 {
            true => Self(self.0.iter().map(|logit| logit / temperature).collect()),
            false => self.clone(),
        }
    }

    /// The likeliest tokens that together have at least this mass; the likeliest one always stays.
    pub(super) fn nucleus(mut self, top_p: f64) -> Self {
        let probs = self.probabilities();
        let mut before = 0.0;
        for token in ranked(&self.0) {
            if before > top_p {
                self.0[token] = f64::NEG_INFINITY;
            }
            before += probs[token];
        }
        self
    }

    /// The `k` likeliest tokens, and those as likely as the last of them.
    pub(super) fn top(mut self, k: usize) -> Self {
        let Some(least) = ranked(&self.0).get(k.max(1) - 1).map(|&token| self.0[token]) else {
            return self;
        };
        self.0.iter_mut().filter(|logit| **logit < least).for_each(|l| *l = f64::NEG_INFINITY);
        self
    }

    pub(super) fn probabilities(&self) -> Vec<f64> {
        let log_sum = self.log_sum();
        self.0.iter().map(|logit| (logit - log_sum).exp()).collect()
    }

    fn log_sum(&self) -> f64 {
        let top = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if top == f64::NEG_INFINITY {
            return 0.0;
        }
        top + self.0.iter().map(|logit| (logit - top).exp()).sum::<f64>().ln()
    }

    /// The log-probability of a token.
    pub(super) fn log_p(&self, token: TokenId) -> f64 {
        let logit = self.0.get(token as usize).copied().unwrap_or(f64::NEG_INFINITY);
        logit - self.log_sum()
    }

    /// The likeliest token, the lowest at a tie.
    pub(super) fn argmax(&self) -> TokenId {
        let better =
            |best: usize, next: usize| if self.0[next] > self.0[best] { next } else { best };
        (0..self.0.len()).reduce(better).unwrap_or(0) as TokenId
    }

    /// A token by chance: inverse CDF over increasing ids.
    pub(super) fn draw(&self, key: Key) -> TokenId {
        let (u, mut below, mut last) = (key.uniform(), 0.0, 0);
        for (token, p) in (0..).zip(self.probabilities()) {
            if p > 0.0 {
                (last, below) = (token, below + p);
                if u < below {
                    break;
                }
            }
        }
        last
    }
}

/// Token ids by falling logit, ties by lowest id.
fn ranked(logits: &[f64]) -> Vec<usize> {
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    ids.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    ids
}

/// How far the likeliest token is ahead of the next.
pub(super) fn margin(probabilities: &[f64]) -> f64 {
    let (mut first, mut second) = (0.0, 0.0);
    for &p in probabilities {
        if p > first {
            (first, second) = (p, first);
        } else if p > second {
            second = p;
        }
    }
    first - second
}

/// Minus the entropy in nats, with the reference's guard against log 0.
pub(super) fn negative_entropy(probabilities: &[f64]) -> f64 {
    probabilities.iter().map(|p| p * (p + 1e-10).ln()).sum()
}
