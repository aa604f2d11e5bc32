//! Noise schedules: α(t), its inverse, and the two laws of unmasking that follow from it.
//!
//! Guarantees: α falls from t = 0 to t = 1; inverses are clamped to `[0, 1]`, which matters where
//! α(0) < 1 (linear, geometric). Source: the forward process of Eq. (1) with α = exp(−σ), and the
//! five σ of MDLM (Sahoo et al., 2024).

use std::{f64::consts::FRAC_PI_2, fmt, str::FromStr};

use serde::Serialize;

use crate::{Error, Result};

/// A noise schedule on `t ∈ [0, 1]`.
pub trait Schedule: Send + Sync {
    /// The chance that a token is not masked at time `t`, falling in `t`. Eq. (1).
    fn alpha(&self, t: f64) -> f64;

    /// The time at which α takes a value, clamped to `[0, 1]`.
    fn alpha_inv(&self, alpha: f64) -> f64;

    /// The chance that a mask at time `t` is revealed by time `s < t`. Eq. (2): (α_s − α_t)/(1 − α_t).
    fn reveal_prob(&self, s: f64, t: f64) -> f64 {
        let (alpha_s, alpha_t) = (self.alpha(s), self.alpha(t));
        if alpha_t >= 1.0 {
            return 1.0; // no mask outlives α = 1
        }
        ((alpha_s - alpha_t) / (1.0 - alpha_t)).clamp(0.0, 1.0)
    }

    /// The next time at which one of `n` masks is revealed, from a uniform number.
    /// Eq. (4): τ_{n-1} = α⁻¹(1 − u^{1/n}(1 − α(τ_n))).
    fn next_event(&self, n: usize, t: f64, u: f64) -> f64 {
        self.alpha_inv(1.0 - u.powf(1.0 / n as f64) * (1.0 - self.alpha(t)))
    }

    /// The reparameterised time γ(t) = −log(1 − α(t)) of Theorem 1, in which masks vanish at rate one.
    fn gamma(&self, t: f64) -> f64 {
        -(1.0 - self.alpha(t)).ln()
    }
}

/// The schedules known by name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseSchedule {
    /// α = 1 − (1 − ε)t, MDLM's own.
    LogLinear {
        /// α(1).
        eps: f64,
    },
    /// α = ε + (1 − ε) cos(πt/2).
    Cosine {
        /// α(1).
        eps: f64,
    },
    /// α = ε + (1 − ε) cos²(πt/2).
    CosineSquared {
        /// α(1).
        eps: f64,
    },
    /// σ = min + t(max − min), α = exp(−σ).
    Linear {
        /// σ(0).
        min: f64,
        /// σ(1).
        max: f64,
    },
    /// σ = min^{1−t} max^t, α = exp(−σ).
    Geometric {
        /// σ(0).
        min: f64,
        /// σ(1).
        max: f64,
    },
}

impl Default for NoiseSchedule {
    fn default() -> Self {
        Self::LogLinear { eps: 1e-3 }
    }
}

impl NoiseSchedule {
    /// Refuses parameters outside the schedule's domain.
    pub fn check(self) -> Result<Self> {
        let invalid = |expected: &str, got: String| {
            Err(Error::Invalid { what: "schedule", expected: expected.into(), got })
        };
        match self {
            Self::LogLinear { eps } | Self::Cosine { eps } | Self::CosineSquared { eps }
                if !(0.0..1.0).contains(&eps) =>
            {
                invalid("ε in [0, 1)", format!("ε = {eps}"))
            }
            Self::Linear { min, max } if !(0.0 <= min && min < max && max.is_finite()) => {
                invalid("0 ≤ min < max", format!("{min}..{max}"))
            }
            Self::Geometric { min, max } if !(0.0 < min && min < max && max.is_finite()) => {
                invalid("0 < min < max", format!("{min}..{max}"))
            }
            _ => Ok(self),
        }
    }
}

impl Schedule for NoiseSchedule {
    fn alpha(&self, t: f64) -> f64 {
        match *self {
            Self::LogLinear { eps } => 1.0 - (1.0 - eps) * t,
            Self::Cosine { eps } => eps + (1.0 - eps) * (FRAC_PI_2 * t).cos(),
            Self::CosineSquared { eps } => eps + (1.0 - eps) * (FRAC_PI_2 * t).cos().powi(2),
            Self::Linear { min, max } => (-(min + t * (max - min))).exp(),
            Self::Geometric { min, max } => (-(min.powf(1.0 - t) * max.powf(t))).exp(),
        }
    }

    fn alpha_inv(&self, alpha: f64) -> f64 {
        let unit = |eps: f64| ((alpha - eps) / (1.0 - eps)).clamp(0.0, 1.0);
        let t = match *self {
            Self::LogLinear { eps } => (1.0 - alpha) / (1.0 - eps),
            Self::Cosine { eps } => unit(eps).acos() / FRAC_PI_2,
            Self::CosineSquared { eps } => unit(eps).sqrt().acos() / FRAC_PI_2,
            Self::Linear { min, max } => (-alpha.ln() - min) / (max - min),
            Self::Geometric { min, max } => ((-alpha.ln()).max(0.0) / min).ln() / (max / min).ln(),
        };
        t.clamp(0.0, 1.0)
    }
}

impl fmt::Display for NoiseSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LogLinear { eps } => write!(f, "loglinear:{eps}"),
            Self::Cosine { eps } => write!(f, "cosine:{eps}"),
            Self::CosineSquared { eps } => write!(f, "cosine-squared:{eps}"),
            Self::Linear { min, max } => write!(f, "linear:{min}..{max}"),
            Self::Geometric { min, max } => write!(f, "geometric:{min}..{max}"),
        }
    }
}

/// `loglinear`, `cosine`, `cosine-squared` (optionally `:EPS`), `linear`, `geometric` (optionally `:MIN..MAX`).
impl FromStr for NoiseSchedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |expected: &str| Error::Invalid {
            what: "schedule",
            expected: expected.into(),
            got: format!("{text:?}"),
        };
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text, None),
        };
        let number =
            |text: &str| text.trim().parse::<f64>().map_err(|_| invalid("a number after ':'"));
        let eps = || parameters.map_or(Ok(1e-3), number);
        let range = |default: (f64, f64)| match parameters {
            None => Ok(default),
            Some(range) => match range.split_once("..") {
                Some((min, max)) => Ok((number(min)?, number(max)?)),
                None => Err(invalid("MIN..MAX after ':'")),
            },
        };
        match name {
            "loglinear" => Self::LogLinear { eps: eps()? },
            "cosine" => Self::Cosine { eps: eps()? },
            "cosine-squared" => Self::CosineSquared { eps: eps()? },
            "linear" => {
                let (min, max) = range((1e-3, 7.0))?;
                Self::Linear { min, max }
            }
            "geometric" => {
                let (min, max) = range((1e-3, 1.0))?;
                Self::Geometric { min, max }
            }
            _ => return Err(invalid("loglinear, cosine, cosine-squared, linear or geometric")),
        }
        .check()
    }
}

/// Refuses a schedule that is not a falling probability on a grid of times.
pub(crate) fn check_domain(schedule: &dyn Schedule) -> Result<()> {
    let mut last = f64::INFINITY;
    for step in 0..=16 {
        let t = f64::from(step) / 16.0;
        let alpha = schedule.alpha(t);
        if !(0.0..=1.0 + 1e-12).contains(&alpha) || alpha >= last {
            return Err(Error::Invalid {
                what: "schedule",
                expected: "α in [0, 1], strictly falling from t = 0 to t = 1".into(),
                got: format!("α({t}) = {alpha} after {last}"),
            });
        }
        last = alpha;
    }
    Ok(())
}
