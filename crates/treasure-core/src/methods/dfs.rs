//! Depth-first search with backtracking (Zhang et al., 2025): one path by first hitting, looked at every
//! few events; where it promises less than unguided paths did there, it goes back in time and on again.
//!
//! Maximises. Going back masks every generated token again with one chance, 1 − α(t′)/α(t), whatever the
//! tokens are: with an exact denoiser that does not look at the time the path stays a draw of the model,
//! of which the thresholds reject the low ends. The search always ends: after so many backtracks the
//! thresholds fall to the next lower unguided path, and below the lowest nothing is refused.

mod descent;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AtOnce, Nominal, Search, plan_of};
use crate::{
    Key, Problem, Result,
    options::{at_least_one, share},
    run::Stepper,
};
use descent::Descents;

/// One path that goes back where it promises too little.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dfs {
    /// K, the unguided paths whose values are the thresholds; they are answers like any other.
    pub particles: usize,
    /// The share of them that the path must be level with where it is looked at.
    pub quantile: f64,
    /// Events between two looks; the end is looked at always.
    pub look_every: usize,
    /// The chance of a generated token to be masked again when the path goes back.
    pub share: f64,
    /// B, the backtracks after which the thresholds fall to the next lower unguided path.
    pub backtracks: usize,
}

impl Default for Dfs {
    fn default() -> Self {
        Self { particles: 4, quantile: 0.75, look_every: 6, share: 0.5, backtracks: 4 }
    }
}

impl Dfs {
    /// How many unguided paths the path must be level with after a number of backtracks.
    fn rank(&self, backtracks: usize) -> usize {
        let all = (self.quantile * self.particles as f64 - 1e-9).ceil() as usize;
        all.saturating_sub(backtracks.checked_div(self.backtracks).unwrap_or(all))
    }

    /// The backtracks after which nothing is refused.
    fn most(&self) -> usize {
        self.rank(0).saturating_mul(self.backtracks)
    }

    /// The masks that are left where a path is looked at, most first.
    fn levels(&self, masks: usize) -> Vec<usize> {
        (1..=masks.div_ceil(self.look_every))
            .map(|look| masks.saturating_sub(look.saturating_mul(self.look_every)))
            .collect()
    }
}

impl Search for Dfs {
    fn name(&self) -> &'static str {
        "dfs"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        at_least_one("look every", self.look_every)?;
        share("quantile", self.quantile)?;
        share("share", self.share)
    }

    fn width(&self) -> usize {
        self.particles
    }

    /// With every backtrack there may be, each from the end and as long as it is on average.
    fn nominal_cost(&self, masks: usize) -> Nominal {
        let again = ((self.share * masks as f64).ceil() as usize).max(1);
        let looks = |masks: usize| masks.div_ceil(self.look_every.max(1));
        let all = |path: usize, back: usize| {
            let paths = self.particles.saturating_add(1).saturating_mul(path);
            paths.saturating_add(self.most().saturating_mul(back))
        };
        Nominal::new(all(masks, again), all(looks(masks), looks(again)))
    }

    /// The unguided paths, side by side.
    fn at_once(&self, _: usize) -> AtOnce {
        AtOnce::completed(self.particles, 1)
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        Ok(Box::new(Descents::new(self.clone(), problem.start())))
    }
}
