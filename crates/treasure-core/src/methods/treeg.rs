//! TreeG by destinations (Guo et al., 2025, TreeG-SD): every active text draws K completions from its
//! prediction, which are scored exactly; the best A of all live on, each with the tokens of its own
//! completion at the step's positions.
//!
//! Maximises. What was scored and what is committed agree, one forward pass per active text, and a step
//! may reveal many tokens: the tree for few steps.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AtOnce, Nominal, Search, plan_of};
use crate::{
    Error, Key, Problem, Result, Sampler, Width,
    options::at_least_one,
    population::Population,
    propose::{Destinations, Grid},
    run::Stepper,
    select::TopM,
    value::Destination,
};

/// Tree search over sampled destinations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Treeg {
    /// A(·), the active texts.
    pub tree_width: Width,
    /// K, the completions per active text and step.
    pub x0_samples: usize,
    /// Which positions a step reveals: `ancestral` or `first-hitting`.
    #[serde(flatten)]
    pub sampler: Sampler,
}

impl Default for Treeg {
    fn default() -> Self {
        let tree_width = Width::Constant(2);
        Self { tree_width, x0_samples: 8, sampler: Sampler::Ancestral { steps: 16 } }
    }
}

impl Search for Treeg {
    fn name(&self) -> &'static str {
        "treeg"
    }

    fn check(&self) -> Result<()> {
        self.tree_width.check("tree width")?;
        at_least_one("x0 samples", self.x0_samples)?;
        if !matches!(self.sampler, Sampler::Ancestral { .. } | Sampler::FirstHitting) {
            let expected = "ancestral or first-hitting".into();
            let got = self.sampler.name().into();
            return Err(Error::Invalid { what: "sampler", expected, got });
        }
        self.sampler.check()
    }

    fn width(&self) -> usize {
        self.tree_width.widest()
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let steps = self.sampler.steps(masks).min(masks).max(1);
        let passes = (steps - 1).saturating_mul(self.tree_width.widest()).saturating_add(1);
        Nominal::new(passes, passes.saturating_mul(self.x0_samples))
    }

    fn at_once(&self, _: usize) -> AtOnce {
        AtOnce::completed(self.tree_width.widest(), self.x0_samples)
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let grid = match self.sampler {
            Sampler::Ancestral { steps } => Some(Grid::Uniform(steps)),
            _ => None,
        };
        let parts = Population {
            size: 1,
            propose: Box::new(Destinations { grid, candidates: self.x0_samples }),
            value: Box::new(Destination),
            select: Box::new(TopM { width: self.tree_width.clone() }),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
