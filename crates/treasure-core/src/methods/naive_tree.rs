//! The naive tree: parallel proposals and top m, the foil of the paper's Section 3. Most of its
//! branches collapse, because a parallel step rarely changes anything.

use serde::Serialize;

use super::{Method, plan_of};
use crate::{
    Key, Observer, Outcome, Problem, Result, Width,
    options::at_least_one,
    population::Population,
    propose::{DrawBy, Grid, Parallel},
    select::TopM,
    value::Resubstitute,
};

/// Tree search over parallel steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NaiveTree {
    /// T.
    pub steps: usize,
    /// b(·), the candidates per parent.
    pub beam_width: Width,
    /// m(·), the nodes kept.
    pub tree_width: Width,
}

impl Default for NaiveTree {
    fn default() -> Self {
        Self { steps: 1000, beam_width: Width::Constant(5), tree_width: Width::Constant(2) }
    }
}

impl Method for NaiveTree {
    fn name(&self) -> &'static str {
        "naive-tree"
    }

    fn plan(&self) -> serde_json::Value {
        plan_of(self)
    }

    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        at_least_one("steps", self.steps)?;
        self.beam_width.check("beam width")?;
        self.tree_width.check("tree width")?;
        Population {
            size: 1,
            propose: Parallel {
                grid: Grid::Uniform(self.steps),
                candidates: self.beam_width.clone(),
                draws: DrawBy::State,
            },
            value: Resubstitute,
            select: TopM { width: self.tree_width.clone() },
        }
        .run(self.name(), self.plan(), problem, key, observer)
    }
}
