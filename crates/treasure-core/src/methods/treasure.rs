//! TReASURe (Alg. 3): branch at first-hitting events over the top b tokens, value by resubstitution,
//! keep the best m. Its ablations, the monotone variant and what keeps the text readable are options;
//! the default is the paper to the letter.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, plan_since};
use crate::{
    Error, Key, Problem, Result, SelectKind, ValueKind, WeighBy, Width,
    options::{at_least_one, not_negative, share},
    population::Population,
    propose::{DrawBy, FirstHitting, Order, Pace, Reveal},
    run::Stepper,
    select::{Nested, Select, TopM},
    value::{Posterior, PreviousArgmax, Resubstitute, SampledCompletions, Screened, Taste},
};

/// Options that the first edition did not have.
const NEWER: [&str; 9] =
    ["order", "prior", "variety", "min_p", "widen", "block", "steps", "reuse", "settle"];

/// Tree search with unmasking and resubstitution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    /// Take keys and values of tokens that stay from the pass before, and make them anew every so many steps: less
    /// work a pass, not exact.
    pub reuse: Option<usize>,
    /// End once so many steps in a row left the likeliest token of every mask of the best node as it was: fewer
    /// steps, not exact.
    pub settle: Option<usize>,
    /// Score exactly only this share of each parent's children, ranked by the problem's proxy reward.
    #[serde(rename = "screen_share", alias = "screen")]
    pub screen: Option<f64>,
    /// Which mask is revealed next.
    pub order: Order,
    /// α: children are compared by reward + α · log p of what was committed.
    pub prior: f64,
    /// W: + W · the share of distinct bigrams of the completed text.
    pub variety: f64,
    /// Tokens below this share of the likeliest one's probability are not tried.
    pub min_p: f64,
    /// Tokens tried per position while every text on the way earned the same, where that is more than b
    /// and the reward promises no highest value.
    pub widen: usize,
    /// Positions of a block; blocks are finished from left to right.
    pub block: Option<usize>,
    /// Steps in all: with fewer than tokens, every child commits the surest others as well.
    pub steps: Option<usize>,
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
            reuse: None,
            settle: None,
            screen: None,
            order: Order::Uniform,
            prior: 0.0,
            variety: 0.0,
            min_p: 0.0,
            widen: 0,
            block: None,
            steps: None,
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

    fn pace(&self) -> Pace {
        Pace { block: self.block, steps: self.steps }
    }

    fn taste(&self) -> Taste {
        Taste { prior: self.prior, variety: self.variety }
    }

    fn valued(&self) -> Box<dyn crate::value::Value> {
        let taste = self.taste();
        if let Some(share) = self.screen {
            return Box::new(Screened { share, taste });
        }
        match self.value {
            ValueKind::Resubstitute => Box::new(Resubstitute {
                taste,
                keep: (self.select == SelectKind::Top).then(|| self.tree_width.clone()),
            }),
            ValueKind::Previous => Box::new(SampledCompletions {
                samples: self.x0_samples,
                draws: DrawBy::State,
                exact_at_the_end: true,
                of: WeighBy::Parent,
            }),
            ValueKind::PreviousArgmax => Box::new(PreviousArgmax { taste }),
            ValueKind::Posterior => Box::new(Posterior { taste }),
        }
    }
}

/// Refuses an option that this way of valuing children cannot take into account.
fn only_with(what: &'static str, given: bool, value: &str, got: ValueKind) -> Result<()> {
    if !given {
        return Ok(());
    }
    Err(Error::Invalid { what, expected: format!("the value {value}"), got: got.to_string() })
}

impl Search for Treasure {
    fn name(&self) -> &'static str {
        "treasure"
    }

    fn check(&self) -> Result<()> {
        self.beam_width.check("beam width")?;
        self.tree_width.check("tree width")?;
        at_least_one("groups", self.groups)?;
        at_least_one("x0 samples", self.x0_samples)?;
        self.pace().check()?;
        share("commit threshold", self.commit_threshold.unwrap_or(1.0))?;
        share("screen", self.screen.unwrap_or(1.0))?;
        at_least_one("reuse", self.reuse.unwrap_or(1))?;
        at_least_one("settle", self.settle.unwrap_or(1))?;
        not_negative("prior", self.prior)?;
        not_negative("variety", self.variety)?;
        if !(0.0..=1.0).contains(&self.min_p) {
            let (expected, got) = ("a number in [0, 1]".into(), self.min_p.to_string());
            return Err(Error::Invalid { what: "min p", expected, got });
        }
        let other = self.value != ValueKind::Resubstitute;
        only_with("screen", other && self.screen.is_some(), "resubstitute", self.value)?;
        only_with("reuse", other && self.reuse.is_some(), "resubstitute", self.value)?;
        only_with("settle", other && self.settle.is_some(), "resubstitute", self.value)?;
        let sampled = self.value == ValueKind::Previous;
        let prior = sampled && self.prior > 0.0;
        only_with("prior", prior, "resubstitute, posterior or previous-argmax", self.value)?;
        let variety = sampled && self.variety > 0.0;
        only_with("variety", variety, "resubstitute, posterior or previous-argmax", self.value)?;
        Ok(())
    }

    fn width(&self) -> usize {
        self.tree_width.widest()
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        let children = self.beam_width.widest().saturating_mul(self.groups);
        let later = self
            .pace()
            .steps(masks)
            .min(masks)
            .saturating_sub(1)
            .saturating_mul(self.tree_width.widest());
        let passes = 1usize.saturating_add(later);
        let calls = passes.saturating_mul(children);
        match self.value {
            ValueKind::Posterior => Nominal::new(passes.saturating_add(calls), calls),
            ValueKind::Previous => Nominal::new(passes, calls.saturating_mul(self.x0_samples)),
            _ => Nominal::new(passes, calls),
        }
    }

    /// As the paper's options stand in traces since the first edition: what is new and at the paper's
    /// value is left out.
    fn plan(&self) -> Value {
        let mut plan = plan_since(self, &NEWER);
        if let Value::Object(options) = &mut plan
            && let Some(share) = options.remove("screen_share")
        {
            options.insert("screen".into(), share);
        }
        plan
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        if self.steps.is_some() {
            self.pace().fits_start(problem.start())?;
        }
        if self.reuse.is_some() && !problem.reuses() {
            return Err(Error::Invalid {
                what: "reuse",
                expected: "a built-in model that does not look at the time, without guidance: one that keeps \
                           keys and values"
                    .into(),
                got: "one that does not".into(),
            });
        }
        let width = self.tree_width.clone();
        let select: Box<dyn Select> = match self.select {
            SelectKind::Top => Box::new(TopM { width }),
            SelectKind::Nested => Box::new(Nested { width }),
        };
        let parts = Population {
            size: 1,
            propose: Box::new(FirstHitting {
                reveal: Reveal::Top {
                    beam: self.beam_width.clone(),
                    groups: self.groups,
                    min_p: self.min_p,
                    widen: self.widen,
                },
                draws: DrawBy::State,
                order: self.order,
                commit_threshold: self.commit_threshold,
                reuse: self.reuse,
                pace: self.pace(),
            }),
            value: self.valued(),
            select,
        };
        Ok(Box::new(parts.begin(problem.start()).settling(self.settle)))
    }
}
