//! Feynman–Kac steering (Singhal et al., 2025) over either sampler.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AtOnce, Nominal, Search, plan_since, temper};
use crate::{
    Error, Key, Potential, Problem, Resampling, Result, Sampler, Tempering, WeighBy,
    options::{at_least_one, positive, share},
    population::Population,
    propose::{DrawBy, sampling},
    run::Stepper,
    select::FeynmanKac,
    value::SampledCompletions,
};

/// Particles that are resampled by their rewards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FkSteering {
    /// N.
    pub particles: usize,
    /// What the particles run on.
    #[serde(flatten)]
    pub sampler: Sampler,
    /// λ, which multiplies the reward (the paper's λ is its inverse).
    pub lambda: f64,
    /// The potential.
    pub potential: Potential,
    /// Steps between weighings; by default 50 of them over the run, ⌈steps/50⌉.
    pub resample_every: Option<usize>,
    /// How particles are drawn.
    pub resample: Resampling,
    /// Resample only below this share of effective particles.
    pub ess: Option<f64>,
    /// Completions sampled per particle and weighing.
    pub x0_samples: usize,
    /// Whose prediction is completed; by default the particle's own, except under ancestral sampling,
    /// where the reference weighs by the parent's.
    #[serde(default)]
    pub weigh_by: Option<WeighBy>,
    /// How λ rises.
    #[serde(default)]
    pub tempering: Tempering,
    /// γ of rising tempering; by default λ is reached at the last step.
    #[serde(default)]
    pub temper_gamma: Option<f64>,
    /// The share of particles that adaptive tempering keeps effective; one half by default.
    #[serde(default)]
    pub temper_share: Option<f64>,
}

impl Default for FkSteering {
    fn default() -> Self {
        Self {
            particles: 4,
            sampler: Sampler::Ancestral { steps: 1000 },
            lambda: 10.0,
            potential: Potential::Diff,
            resample_every: None,
            resample: Resampling::Multinomial,
            ess: None,
            x0_samples: 4,
            weigh_by: None,
            tempering: Tempering::None,
            temper_gamma: None,
            temper_share: None,
        }
    }
}

impl FkSteering {
    /// The interval for a number of masks at the start.
    pub fn every(&self, masks: usize) -> usize {
        self.resample_every.unwrap_or_else(|| self.sampler.steps(masks).div_ceil(50).max(1))
    }
}

impl Search for FkSteering {
    fn name(&self) -> &'static str {
        "fk"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        at_least_one("x0 samples", self.x0_samples)?;
        at_least_one("resample every", self.resample_every.unwrap_or(1))?;
        positive("lambda", self.lambda)?;
        share("ess", self.ess.unwrap_or(1.0))?;
        positive("temper gamma", self.temper_gamma.unwrap_or(1.0))?;
        share("temper share", self.temper_share.unwrap_or(1.0))?;
        if self.tempering == Tempering::Adaptive && self.potential != Potential::Diff {
            let expected = "diff with adaptive tempering".into();
            let got = self.potential.to_string();
            return Err(Error::Invalid { what: "potential", expected, got });
        }
        self.sampler.check()
    }

    fn width(&self) -> usize {
        self.particles
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let steps = self.sampler.steps(masks);
        let events = steps.div_ceil(self.every(masks).max(1));
        let passes = self.particles.saturating_mul(self.sampler.passes(masks));
        let calls = self.particles.saturating_mul(events).saturating_mul(self.x0_samples);
        Nominal::new(passes, calls)
    }

    fn at_once(&self, _: usize) -> AtOnce {
        AtOnce::completed(self.particles, self.x0_samples)
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_since(self, &["weigh_by", "tempering", "temper_gamma", "temper_share"])
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let parts = Population {
            size: self.particles,
            propose: sampling(self.sampler, 1),
            value: Box::new(SampledCompletions {
                samples: self.x0_samples,
                draws: DrawBy::Slot,
                exact_at_the_end: true,
                of: self.weigh_by.unwrap_or_else(|| self.sampler.weigh_by()),
            }),
            select: Box::new(FeynmanKac {
                lambda: self.lambda,
                potential: self.potential,
                every: self.every(problem.start().n_masked()),
                resampling: self.resample,
                ess: self.ess,
                temper: temper(self.tempering, self.temper_gamma, self.temper_share),
            }),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
