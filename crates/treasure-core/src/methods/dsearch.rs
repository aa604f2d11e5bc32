//! DSearch (Li et al., 2025): SVDD in many chains whose number falls, so that late steps, where values are
//! exact, are spent on few chains with many candidates.
//!
//! Maximises. Begins with B·E chains and ends with B; a step is wide with a chance that its schedule
//! gives, and then spends w·D·B·E candidates on the chains that are left. Differs from the released code:
//! no lookahead beyond the child's own prediction.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, plan_of};
use crate::{
    Error, Key, Problem, Result, Sampler, Width,
    options::{at_least_one, named, positive},
    population::Population,
    propose::{purpose, sampling},
    run::Stepper,
    select::BestChains,
    value::Posterior,
};

named!(
    /// How likely a step of DSearch is to search widely.
    WideWhen, "wide when", {
        /// Always.
        #[default]
        Always = "always",
        /// 1 − exp(−3i/T) at step i.
        Exponential = "exponential",
        /// (i + 10)/T at step i.
        Linear = "linear",
        /// Never.
        Never = "never",
    }
);

named!(
    /// How the chains of DSearch fall from B·E to B.
    Fall, "fall", {
        /// By a constant factor.
        #[default]
        Exponential = "exponential",
        /// By a constant number.
        Linear = "linear",
    }
);

/// Chains that become fewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dsearch {
    /// D, the candidates per chain and step.
    pub particles: usize,
    /// B, the chains at the end.
    pub chains: usize,
    /// E: B·E chains at the start.
    pub expand: usize,
    /// w: a wide step has w·D·B·E candidates in all.
    pub wide: f64,
    /// When steps are wide.
    pub wide_when: WideWhen,
    /// How the chains become fewer.
    pub fall: Fall,
    /// Replace this share of the chains by copies of the others at every step.
    pub replace: f64,
    /// What the chains run on: `ancestral`, `first-hitting` or `remdm`.
    #[serde(flatten)]
    pub sampler: Sampler,
}

impl Default for Dsearch {
    fn default() -> Self {
        Self {
            particles: 4,
            chains: 1,
            expand: 4,
            wide: 1.0,
            wide_when: WideWhen::Always,
            fall: Fall::Exponential,
            replace: 0.0,
            sampler: Sampler::FirstHitting,
        }
    }
}

impl Dsearch {
    fn at_first(&self) -> usize {
        self.chains.saturating_mul(self.expand)
    }

    /// Chains left after a step.
    fn chains_after(&self, step: usize, steps: usize) -> usize {
        let way = if steps > 1 { step as f64 / (steps - 1) as f64 } else { 1.0 };
        let (first, last) = (self.at_first() as f64, self.chains as f64);
        let left = match self.fall {
            Fall::Exponential => first * (last / first).powf(way),
            Fall::Linear => first + (last - first) * way,
        };
        // A hair above, so that rounding does not drop a chain too early.
        ((left + 1e-9) as usize).max(self.chains)
    }

    /// The chance that a step is wide.
    fn wide_chance(&self, step: usize, steps: usize) -> f64 {
        match self.wide_when {
            WideWhen::Always => 1.0,
            WideWhen::Never => 0.0,
            WideWhen::Exponential => 1.0 - (-3.0 * step as f64 / steps as f64).exp(),
            WideWhen::Linear => ((step + 10) as f64 / steps as f64).min(1.0),
        }
    }

    /// Candidates per chain of a wide step with so many chains.
    fn wide_candidates(&self, chains: usize) -> usize {
        let all = self.wide * self.particles.saturating_mul(self.at_first()) as f64;
        ((all / chains as f64) as usize).max(1)
    }

    /// Chains that a step begins with.
    fn chains_at(&self, step: usize, steps: usize) -> usize {
        match step {
            0 => self.at_first(),
            _ => self.chains_after(step - 1, steps),
        }
    }
}

impl Search for Dsearch {
    fn name(&self) -> &'static str {
        "dsearch"
    }

    fn check(&self) -> Result<()> {
        at_least_one("particles", self.particles)?;
        at_least_one("chains", self.chains)?;
        at_least_one("expand", self.expand)?;
        positive("wide", self.wide)?;
        let invalid = |what, expected: &str, got: String| {
            Err(Error::Invalid { what, expected: expected.into(), got })
        };
        if !(0.0..1.0).contains(&self.replace) {
            return invalid("replace", "a number in [0, 1)", self.replace.to_string());
        }
        if self.sampler == Sampler::Greedy {
            return invalid("sampler", "ancestral, first-hitting or remdm", "greedy".into());
        }
        self.sampler.check()
    }

    fn width(&self) -> usize {
        self.particles.saturating_mul(self.chains)
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let steps = self.sampler.passes(masks);
        let children = (0..steps).map(|step| {
            let chains = self.chains_at(step, steps);
            let wide = self.wide_candidates(chains).saturating_mul(chains) as f64;
            let chance = self.wide_chance(step, steps);
            chance * wide + (1.0 - chance) * self.particles.saturating_mul(chains) as f64
        });
        let children = children.sum::<f64>() as usize;
        Nominal::new(children, children)
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, key: Key) -> Result<Box<dyn Stepper>> {
        let steps = self.sampler.steps(problem.start().n_masked());
        let candidates = |step: usize| {
            let u = key.fold(purpose::SCHEDULE).fold(step as u64).uniform();
            match u < self.wide_chance(step, steps) {
                true => self.wide_candidates(self.chains_at(step, steps)),
                false => self.particles,
            }
        };
        let parts = Population {
            size: self.at_first(),
            propose: sampling(self.sampler, Width::List((0..steps).map(candidates).collect())),
            value: Box::new(Posterior::default()),
            select: Box::new(BestChains {
                keep: Width::List((0..steps).map(|i| self.chains_after(i, steps)).collect()),
                replace: self.replace,
            }),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
