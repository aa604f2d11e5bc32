//! Drawing particles by weight, in log space.
//!
//! Guarantees: every scheme gives particle i an expected N·w_i copies; weights from which nothing can
//! be drawn are an error, never replaced.

use crate::{Error, Key, Resampling, Result};

/// Checked log-weights with their normalised form.
#[derive(Clone, Debug)]
pub struct LogWeights {
    normalised: Vec<f64>,
    log_sum: f64,
}

impl LogWeights {
    /// Log-weights; `what` names them if they are all −∞, or one is NaN or +∞.
    pub fn new(what: &str, log_weights: &[f64]) -> Result<Self> {
        let top = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !top.is_finite() || log_weights.iter().any(|weight| weight.is_nan()) {
            let shown: Vec<_> = log_weights.iter().take(16).map(ToString::to_string).collect();
            let more = if log_weights.len() > 16 { ", …" } else { "" };
            return Err(Error::Weights {
                what: what.to_owned(),
                got: format!("log-weights [{}{more}]", shown.join(", ")),
            });
        }
        let scaled: Vec<f64> = log_weights.iter().map(|weight| (weight - top).exp()).collect();
        let sum: f64 = scaled.iter().sum();
        let normalised = scaled.into_iter().map(|weight| weight / sum).collect();
        Ok(Self { normalised, log_sum: top + sum.ln() })
    }

    /// The weights, summing to one.
    pub fn normalised(&self) -> &[f64] {
        &self.normalised
    }

    /// The logarithm of the sum of the weights.
    pub fn log_sum(&self) -> f64 {
        self.log_sum
    }

    /// The logarithm of the mean weight.
    pub fn log_mean(&self) -> f64 {
        self.log_sum - (self.normalised.len() as f64).ln()
    }

    /// 1/Σw²: how many equal particles these are worth.
    pub fn effective_sample_size(&self) -> f64 {
        1.0 / self.normalised.iter().map(|weight| weight * weight).sum::<f64>()
    }
}

/// One index, drawn by weight.
pub fn draw_one(weights: &LogWeights, key: Key) -> usize {
    inverse_cdf(weights.normalised(), key.uniform())
}

/// The ancestors of the next population, as many as there are weights.
pub fn draw(scheme: Resampling, weights: &LogWeights, key: Key) -> Vec<usize> {
    let w = weights.normalised();
    let n = w.len();
    match scheme {
        Resampling::Multinomial => {
            (0..n).map(|i| inverse_cdf(w, key.fold(i as u64).uniform())).collect()
        }
        Resampling::Systematic => {
            let u = key.uniform();
            let mut ancestors = Vec::with_capacity(n);
            // Rounding may leave the sum below the last point: nothing without weight is drawn then.
            let last = w.iter().rposition(|&weight| weight > 0.0).unwrap_or(0);
            let (mut i, mut cumulative) = (0, w[0]);
            for j in 0..n {
                let point = (j as f64 + u) / n as f64;
                while point >= cumulative && i < last {
                    i += 1;
                    cumulative += w[i];
                }
                ancestors.push(i);
            }
            ancestors
        }
        Resampling::Residual => {
            let expected: Vec<f64> = w.iter().map(|weight| weight * n as f64).collect();
            let mut ancestors: Vec<usize> = (expected.iter().enumerate())
                .flat_map(|(i, &copies)| std::iter::repeat_n(i, copies.floor() as usize))
                .collect();
            ancestors.truncate(n); // rounding may reach n·w = n + ε
            let residual: Vec<f64> =
                expected.iter().map(|copies| copies - copies.floor()).collect();
            let total: f64 = residual.iter().sum();
            while ancestors.len() < n {
                let u = key.fold(ancestors.len() as u64).uniform();
                ancestors.push(inverse_cdf(&residual, u * total));
            }
            ancestors.sort_unstable();
            ancestors
        }
    }
}

/// The first index whose cumulative weight passes `u`; the last with any weight if rounding falls short.
fn inverse_cdf(weights: &[f64], u: f64) -> usize {
    let mut cumulative = 0.0;
    for (i, weight) in weights.iter().enumerate() {
        cumulative += weight;
        if u < cumulative {
            return i;
        }
    }
    weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0)
}
