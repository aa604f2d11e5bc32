//! TReASURe (Alg. 3): branch at first-hitting events over the top b tokens, value by resubstitution,
//! keep the best m. Its ablations and the monotone variant are options.

use serde::Serialize;

use super::{Method, plan_of};
use crate::{
    Error, Key, Observer, Outcome, Problem, Result, SelectKind, ValueKind, Width,
    options::{at_least_one, share},
    population::Population,
    propose::{DrawBy, FirstHitting, Reveal},
    select::{Nested, Select, TopM},
    value::{Posterior, PreviousArgmax, Resubstitute, SampledCompletions, Screened, Value},
};

/// Tree search with unmasking and resubstitution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Treasure {
    /// b(·), the tokens tried per position.
    pub beam_width: Width,
    /// m(·), the nodes kept.
    pub tree_width: Width,
    /// k, the positions tried per parent.
    pub groups: usize,
    /// How children are valued.
    pub value: ValueKind,
    /// How nodes are picked.
    pub select: SelectKind,
    /// Completions per child under [`ValueKind::Previous`].
    pub x0_samples: usize,
    /// Also commit masks predicted with at least this probability: fewer steps, no longer Alg. 1.
    pub commit_threshold: Option<f64>,
    /// Score exactly only this share of the children, ranked by the problem's proxy reward.
    pub screen: Option<f64>,
}

impl Default for Treasure {
    fn default() -> Self {
        Self {
            beam_width: Width::Constant(5),
            tree_width: Width::Constant(2),
            groups: 1,
            value: ValueKind::Resubstitute,
            select: SelectKind::Top,
            x0_samples: 4,
            commit_threshold: None,
            screen: None,
        }
    }
}

impl Treasure {
    /// The paper's method with constant widths (b, m).
    pub fn new(beam_width: usize, tree_width: usize) -> Self {
        Self {
            beam_width: Width::Constant(beam_width),
            tree_width: Width::Constant(tree_width),
            ..Self::default()
        }
    }

    fn check(&self) -> Result<()> {
        self.beam_width.check("beam width")?;
        self.tree_width.check("tree width")?;
        at_least_one("groups", self.groups)?;
        at_least_one("x0 samples", self.x0_samples)?;
        share("commit threshold", self.commit_threshold.unwrap_or(1.0))?;
        share("screen", self.screen.unwrap_or(1.0))?;
        if self.screen.is_some() && self.value != ValueKind::Resubstitute {
            return Err(Error::Invalid {
                what: "screen",
                expected: "the value resubstitute".into(),
                got: self.value.to_string(),
            });
        }
        Ok(())
    }
}

/// A run with its parts still to be chosen.
struct Wiring<'r, 'p> {
    options: &'r Treasure,
    problem: &'r Problem<'p>,
    key: Key,
    observer: &'r mut dyn Observer,
}

impl Wiring<'_, '_> {
    fn value(self) -> Result<Outcome> {
        let options = self.options;
        if let Some(share) = options.screen {
            return self.select(Screened { share, at_least: options.tree_width.clone() });
        }
        match options.value {
            ValueKind::Resubstitute => self.select(Resubstitute),
            ValueKind::Previous => self.select(SampledCompletions {
                samples: options.x0_samples,
                draws: DrawBy::State,
                exact_at_the_end: true,
            }),
            ValueKind::PreviousArgmax => self.select(PreviousArgmax),
            ValueKind::Posterior => self.select(Posterior),
        }
    }

    fn select(self, value: impl Value) -> Result<Outcome> {
        let width = self.options.tree_width.clone();
        match self.options.select {
            SelectKind::Top => self.run(value, TopM { width }),
            SelectKind::Nested => self.run(value, Nested { width }),
        }
    }

    fn run(self, value: impl Value, select: impl Select) -> Result<Outcome> {
        let options = self.options;
        let reveal = Reveal::Top { beam: options.beam_width.clone(), groups: options.groups };
        let commit_threshold = options.commit_threshold;
        let propose = FirstHitting { reveal, draws: DrawBy::State, commit_threshold };
        Population { size: 1, propose, value, select }.run(
            options.name(),
            options.plan(),
            self.problem,
            self.key,
            self.observer,
        )
    }
}

impl Method for Treasure {
    fn name(&self) -> &'static str {
        "treasure"
    }

    fn plan(&self) -> serde_json::Value {
        plan_of(self)
    }

    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        self.check()?;
        Wiring { options: self, problem, key, observer }.value()
    }
}
