//! Fully adapted sequential Monte Carlo: at every first-hitting event the likeliest tokens and one of the
//! rest are scored by resubstitution, particles are resampled by what all of them promise, and each draws
//! its token by its own share.
//!
//! Samples p·exp(λ r): its normaliser is unbiased and its weighted particles converge to the target. Sees
//! its own token, unlike FK steering, at the tree's low-variance value; λ → ∞ is a tree with one choice a
//! parent, λ → 0 the model. The derivative-free form of the locally optimal proposal of Pani et al.
//! (2025), which needs gradients of the reward.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, plan_of, temper};
use crate::{
    Key, Problem, Resampling, Result, Tempering, Width,
    options::{at_least_one, positive, share},
    population::Population,
    propose::{FirstHitting, Reveal},
    run::Stepper,
    select::FullyAdapted,
    value::Resubstitute,
};

/// Particles that look at their own tokens before they are resampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Smc {
    /// N.
    pub particles: usize,
    /// b(·), the likeliest tokens scored per particle; one of the rest is scored beside them.
    pub beam_width: Width,
    /// λ, which multiplies the reward.
    pub lambda: f64,
    /// How parents are drawn.
    pub resample: Resampling,
    /// Resample only below this share of effective particles.
    pub ess: Option<f64>,
    /// How λ rises.
    pub tempering: Tempering,
    /// γ of rising tempering; by default λ is reached at the last step.
    pub temper_gamma: Option<f64>,
    /// The share of particles that adaptive tempering keeps effective; one half by default.
    pub temper_share: Option<f64>,
}

impl Default for Smc {
    fn default() -> Self {
        Self {
            particles: 4,
            beam_width: Width::Constant(5),
            lambda: 10.0,
            resample: Resampling::Systematic,
            ess: None,
            tempering: Tempering::None,
            temper_gamma: None,
            temper_share: None,
        }
    }
}

/// Draws in which a token of the rest is looked for.
const TRIES: usize = 8;

impl Search for Smc {
    fn name(&self) -> &'static str {
        "smc"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        self.beam_width.check("beam width")?;
        positive("lambda", self.lambda)?;
        share("ess", self.ess.unwrap_or(1.0))?;
        positive("temper gamma", self.temper_gamma.unwrap_or(1.0))?;
        share("temper share", self.temper_share.unwrap_or(1.0))
    }

    fn width(&self) -> usize {
        self.particles
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let passes = self.particles.saturating_mul(masks);
        let children = self.beam_width.widest().saturating_add(1);
        Nominal::new(passes, passes.saturating_mul(children))
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let parts = Population {
            size: self.particles,
            propose: Box::new(FirstHitting::new(Reveal::Enumerate {
                beam: self.beam_width.clone(),
                tries: TRIES,
            })),
            value: Box::new(Resubstitute::default()),
            select: Box::new(FullyAdapted {
                lambda: self.lambda,
                resampling: self.resample,
                ess: self.ess,
                temper: temper(self.tempering, self.temper_gamma, self.temper_share),
            }),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
