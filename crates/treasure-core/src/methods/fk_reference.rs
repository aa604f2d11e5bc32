//! Feynman–Kac steering as the reference code runs it, for literal comparisons.
//!
//! 1001 ancestral steps, 51 resampling events, float32 weights with the reference's repairs, values of
//! the parent even at the end, and a multinomial draw before the argmax. Differs from the reference:
//! tokens are drawn in f64 by inverse CDF, not by float32 or bfloat16 Gumbel noise, and the answer's
//! exact reward is computed with one more reward call.

use serde::Serialize;

use super::{Method, plan_of};
use crate::{
    Key, Observer, Outcome, Potential, Problem, Result, Width,
    options::{at_least_one, positive},
    population::Population,
    propose::{DrawBy, Grid, Parallel},
    select::FkReferenceResampler,
    value::SampledCompletions,
};

/// FK steering with the reference's own rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

impl Method for FkReference {
    fn name(&self) -> &'static str {
        "fk-reference"
    }

    fn plan(&self) -> serde_json::Value {
        plan_of(self)
    }

    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        at_least_one("particles", self.particles)?;
        at_least_one("x0 samples", self.x0_samples)?;
        at_least_one("resample every", self.resample_every)?;
        positive("lambda", self.lambda)?;
        Population {
            size: self.particles,
            propose: Parallel {
                grid: Grid::Reference,
                candidates: Width::Constant(1),
                draws: DrawBy::Slot,
            },
            value: SampledCompletions {
                samples: self.x0_samples,
                draws: DrawBy::Slot,
                exact_at_the_end: false,
            },
            select: FkReferenceResampler {
                lambda: self.lambda,
                potential: self.potential,
                every: self.resample_every,
            },
        }
        .run(self.name(), self.plan(), problem, key, observer)
    }
}
