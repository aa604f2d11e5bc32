//! Diffusion tree sampling and search (DTS and DTS*, Jain et al., 2025): a tree of partial texts that
//! grows by one rollout an iteration and backs the exact reward of its end up to the root.
//!
//! `dts` samples p·exp(λ r): the value of a node is the soft mean of its children's, which converges to
//! the soft value of Eq. (6), and a walk down by value converges to the target. `dts-star` maximises, by
//! upper confidence bounds, or by PUCT over the likeliest tokens without rollouts. Both are anytime: more
//! iterations only help, and any budget ends with the best text so far.

mod puct;
mod tree;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AtOnce, Nominal, Search, plan_of};
use crate::{
    Key, Problem, Result, Width,
    options::{at_least_one, named, not_negative, positive, share},
    run::Stepper,
};
use tree::{Rule, Shape};

/// Sampling from a tree of rollouts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dts {
    /// Rollouts.
    pub iterations: usize,
    /// λ, which multiplies the reward.
    pub lambda: f64,
    /// Events between branchings.
    pub branch_every: usize,
    /// C: a node visited N times has up to C·N^a children.
    pub widen: f64,
    /// a.
    pub widen_power: f64,
}

impl Default for Dts {
    fn default() -> Self {
        Self { iterations: 16, lambda: 10.0, branch_every: 6, widen: 2.0, widen_power: 0.5 }
    }
}

named!(
    /// How DTS* walks down its tree.
    Policy, "policy", {
        /// Rollouts, and upper confidence bounds of the best reward below.
        #[default]
        Uct = "uct",
        /// The likeliest tokens with their probability as a prior, valued by resubstitution; no rollouts.
        Puct = "puct",
    }
);

named!(
    /// What a node of PUCT is worth.
    Backup, "backup", {
        /// The best below it.
        #[default]
        Max = "max",
        /// The mean of what its visits found.
        Mean = "mean",
    }
);

/// Search in a tree of rollouts, or of tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DtsStar {
    /// Rollouts, or expansions under PUCT.
    pub iterations: usize,
    /// c: how much is explored.
    pub explore: f64,
    /// How the tree is walked down.
    pub policy: Policy,
    /// Events between branchings, under UCT.
    pub branch_every: usize,
    /// C: a node visited N times has up to C·N^a children, under UCT.
    pub widen: f64,
    /// a.
    pub widen_power: f64,
    /// b(·), the tokens tried per position, under PUCT.
    pub beam_width: Width,
    /// What a node is worth, under PUCT.
    pub backup: Backup,
}

impl Default for DtsStar {
    fn default() -> Self {
        Self {
            iterations: 16,
            explore: 1.0,
            policy: Policy::Uct,
            branch_every: 6,
            widen: 2.0,
            widen_power: 0.5,
            beam_width: Width::Constant(5),
            backup: Backup::Max,
        }
    }
}

/// The whole tree stays.
fn whole_tree(Nominal { nfe, reward_calls }: Nominal) -> AtOnce {
    AtOnce { sequences: nfe.max(reward_calls), states: 1 }
}

impl Search for Dts {
    fn name(&self) -> &'static str {
        "dts"
    }

    fn check(&self) -> Result<()> {
        at_least_one("iterations", self.iterations)?;
        at_least_one("branch every", self.branch_every)?;
        positive("lambda", self.lambda)?;
        positive("widen", self.widen)?;
        share("widen power", self.widen_power)
    }

    fn width(&self) -> usize {
        self.iterations
    }

    /// At most: a rollout begins at the node it expands.
    fn nominal_cost(&self, masks: usize) -> Nominal {
        Nominal::new(self.iterations.saturating_mul(masks), self.iterations)
    }

    fn at_once(&self, masks: usize) -> AtOnce {
        whole_tree(self.nominal_cost(masks))
    }

    fn is_sampler(&self) -> bool {
        true
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let shape = Shape {
            iterations: self.iterations,
            every: self.branch_every,
            widen: self.widen,
            power: self.widen_power,
        };
        Ok(Box::new(tree::grown(problem.start(), shape, Rule::Soft { lambda: self.lambda })))
    }
}

impl Search for DtsStar {
    fn name(&self) -> &'static str {
        "dts-star"
    }

    fn check(&self) -> Result<()> {
        at_least_one("iterations", self.iterations)?;
        at_least_one("branch every", self.branch_every)?;
        not_negative("explore", self.explore)?;
        positive("widen", self.widen)?;
        share("widen power", self.widen_power)?;
        self.beam_width.check("beam width")
    }

    fn width(&self) -> usize {
        self.iterations
    }

    /// At most: a rollout begins at the node it expands, and a walk may end where the text does.
    fn nominal_cost(&self, masks: usize) -> Nominal {
        match self.policy {
            Policy::Uct => Nominal::new(self.iterations.saturating_mul(masks), self.iterations),
            Policy::Puct => {
                let calls = self.iterations.saturating_mul(self.beam_width.widest());
                Nominal::new(self.iterations, calls)
            }
        }
    }

    fn at_once(&self, masks: usize) -> AtOnce {
        whole_tree(self.nominal_cost(masks))
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let shape = Shape {
            iterations: self.iterations,
            every: self.branch_every,
            widen: self.widen,
            power: self.widen_power,
        };
        let start = problem.start();
        Ok(match self.policy {
            Policy::Uct => {
                Box::new(tree::grown(start, shape, Rule::Best { explore: self.explore }))
            }
            Policy::Puct => Box::new(puct::grown(start, self.clone())),
        })
    }
}
