//! Particle Gibbs (PG-DLM, Dang et al., 2025): Feynman–Kac steering again and again, each sweep along a
//! reference path drawn from the sweep before.
//!
//! Samples p·exp(λ r): a sweep is conditional sequential Monte Carlo, which leaves the target as it is for
//! any number of particles from 2 up, so that more sweeps come closer to it where more particles alone
//! would be needed. The first sweep is FK steering with the potential `diff`. Multinomial resampling
//! only: other schemes are not valid along a reference as they stand.

mod sweeps;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AtOnce, Nominal, Search, plan_of};
use crate::{
    Error, Key, Problem, Result, Sampler, WeighBy,
    options::{at_least_one, positive},
    run::Stepper,
};
use sweeps::Sweeps;

/// Sweeps of conditional particles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pg {
    /// k, the particles of a sweep, the reference among them.
    pub particles: usize,
    /// M, the sweeps.
    pub iterations: usize,
    /// What the particles run on.
    #[serde(flatten)]
    pub sampler: Sampler,
    /// λ, which multiplies the reward.
    pub lambda: f64,
    /// Steps between weighings; by default 50 of them over a sweep, ⌈steps/50⌉.
    pub resample_every: Option<usize>,
    /// Completions sampled per particle and weighing.
    pub x0_samples: usize,
    /// Whose prediction is completed; by default as in FK steering.
    pub weigh_by: Option<WeighBy>,
}

impl Default for Pg {
    fn default() -> Self {
        Self {
            particles: 4,
            iterations: 4,
            sampler: Sampler::FirstHitting,
            lambda: 10.0,
            resample_every: None,
            x0_samples: 4,
            weigh_by: None,
        }
    }
}

impl Pg {
    fn every(&self, masks: usize) -> usize {
        self.resample_every.unwrap_or_else(|| self.sampler.steps(masks).div_ceil(50).max(1))
    }
}

impl Search for Pg {
    fn name(&self) -> &'static str {
        "pg"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        at_least_one("iterations", self.iterations)?;
        at_least_one("x0 samples", self.x0_samples)?;
        at_least_one("resample every", self.resample_every.unwrap_or(1))?;
        positive("lambda", self.lambda)?;
        if self.particles == 1 && self.iterations > 1 {
            let (expected, got) = ("at least 2: one is the reference".into(), "1".into());
            return Err(Error::Invalid { what: "particles", expected, got });
        }
        if let Sampler::Llada(_) | Sampler::Dream(_) = self.sampler {
            let expected = "a sampler that draws from the model: ancestral or first-hitting".into();
            let got = self.sampler.name().into();
            return Err(Error::Invalid { what: "sampler", expected, got });
        }
        self.sampler.check()
    }

    fn width(&self) -> usize {
        self.particles
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        // M(k − 1) + 1 paths: the reference is walked once.
        let fresh = self.particles.saturating_sub(1).saturating_mul(self.iterations);
        let paths = fresh.saturating_add(1);
        let events = self.sampler.steps(masks).div_ceil(self.every(masks).max(1));
        let calls = paths.saturating_mul(events).saturating_mul(self.x0_samples);
        Nominal::new(paths.saturating_mul(self.sampler.passes(masks)), calls)
    }

    fn at_once(&self, _: usize) -> AtOnce {
        AtOnce::completed(self.particles, self.x0_samples)
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        Ok(Box::new(Sweeps::new(self, problem)))
    }
}
