//! Feynman–Kac steering as the reference code runs it, for literal comparisons.
//!
//! 1001 ancestral steps, 51 resampling events, float32 weights with the reference's repairs, values of
//! the parent even at the end, a multinomial draw before the argmax, and an argmax of the running reward. Differs from the reference:
//! tokens are drawn in f64 by inverse CDF, not by float32 or bfloat16 Gumbel noise, and the answer's
//! exact reward is computed with one more reward call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AtOnce, Nominal, Search, plan_of};
use crate::{
    Key, Potential, Problem, Result, WeighBy, Width,
    options::{at_least_one, positive},
    population::Population,
    propose::{DrawBy, Grid, Parallel},
    run::Stepper,
    select::FkReferenceResampler,
    value::SampledCompletions,
};

/// FK steering with the reference's own rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FkReference {
    /// k.
    pub particles: usize,
    /// λ.
    pub lambda: f64,
    /// The potential.
    pub potential: Potential,
    /// Steps between resamplings.
    pub resample_every: usize,
    /// Completions per particle and resampling.
    pub x0_samples: usize,
}

impl Default for FkReference {
    fn default() -> Self {
        Self {
            particles: 4,
            lambda: 10.0,
            potential: Potential::Diff,
            resample_every: 20,
            x0_samples: 4,
        }
    }
}

impl Search for FkReference {
    fn name(&self) -> &'static str {
        "fk-reference"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        at_least_one("x0 samples", self.x0_samples)?;
        at_least_one("resample every", self.resample_every)?;
        positive("lambda", self.lambda)
    }

    fn width(&self) -> usize {
        self.particles
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let events = Grid::Reference.steps().div_ceil(self.resample_every.max(1));
        let calls = self.particles.saturating_mul(events).saturating_mul(self.x0_samples);
        Nominal::new(self.particles.saturating_mul(masks), calls)
    }

    fn at_once(&self, _: usize) -> AtOnce {
        AtOnce::completed(self.particles, self.x0_samples)
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let parts = Population {
            size: self.particles,
            propose: Box::new(Parallel {
                grid: Grid::Reference,
                candidates: Width::Constant(1),
                draws: DrawBy::Slot,
            }),
            value: Box::new(SampledCompletions {
                samples: self.x0_samples,
                draws: DrawBy::Slot,
                exact_at_the_end: false,
                of: WeighBy::Parent,
            }),
            select: Box::new(FkReferenceResampler {
                lambda: self.lambda,
                potential: self.potential,
                every: self.resample_every,
            }),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
