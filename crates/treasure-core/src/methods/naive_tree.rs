//! The naive tree: parallel proposals and top m, the foil of the paper's Section 3. Most of its
//! branches collapse, because a parallel step rarely changes anything.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, plan_of};
use crate::{
    Key, Problem, Result, Width,
    options::{at_least_one, not_negative},
    population::Population,
    propose::{DrawBy, Grid, Parallel},
    run::Stepper,
    select::TopM,
    value::{Resubstitute, Taste},
};

/// Tree search over parallel steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NaiveTree {
    /// T.
    pub steps: usize,
    /// b(·), the candidates per parent.
    pub beam_width: Width,
    /// m(·), the nodes kept.
    pub tree_width: Width,
    /// W: + W · the share of distinct bigrams in the value.
    #[serde(default)]
    pub variety: f64,
}

impl Default for NaiveTree {
    fn default() -> Self {
        Self {
            steps: 1000,
            beam_width: Width::Constant(5),
            tree_width: Width::Constant(2),
            variety: 0.0,
        }
    }
}

impl Search for NaiveTree {
    fn name(&self) -> &'static str {
        "naive-tree"
    }

    fn check(&self) -> Result<()> {
        at_least_one("steps", self.steps)?;
        self.beam_width.check("beam width")?;
        self.tree_width.check("tree width")?;
        not_negative("variety", self.variety)
    }

    fn width(&self) -> usize {
        self.tree_width.widest()
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let (b, m) = (self.beam_width.widest(), self.tree_width.widest());
        let steps = self.steps.min(masks).max(1);
        let passes = 1usize.saturating_add((steps - 1).saturating_mul(m));
        Nominal::new(passes, passes.saturating_mul(b))
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let parts = Population {
            size: 1,
            propose: Box::new(Parallel {
                grid: Grid::Uniform(self.steps),
                candidates: self.beam_width.clone(),
                draws: DrawBy::State,
            }),
            value: Box::new(Resubstitute {
                // A parallel step draws its tokens: there is no log p to weigh.
                taste: Taste { prior: 0.0, variety: self.variety },
                ..Resubstitute::default()
            }),
            select: Box::new(TopM { width: self.tree_width.clone() }),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
