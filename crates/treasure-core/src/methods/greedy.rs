//! First-hitting argmax decoding: random order, likeliest token, no reward until the end.
//! Draws by state, so it walks the path of TReASURe with b = m = 1: the fair control for its mode
//! seeking.

use serde::Serialize;

use super::{Method, plan_of};
use crate::{
    Key, Observer, Outcome, Problem, Result, Width,
    population::Population,
    propose::{DrawBy, FirstHitting, Reveal},
    select::KeepAll,
    value::FinalReward,
};

/// Random-order greedy decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Greedy {}

impl Method for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn plan(&self) -> serde_json::Value {
        plan_of(self)
    }

    fn run(&self, problem: &Problem<'_>, key: Key, observer: &mut dyn Observer) -> Result<Outcome> {
        let reveal = Reveal::Top { beam: Width::Constant(1), groups: 1 };
        Population {
            size: 1,
            propose: FirstHitting { reveal, draws: DrawBy::State, commit_threshold: None },
            value: FinalReward,
            select: KeepAll,
        }
        .run(self.name(), self.plan(), problem, key, observer)
    }
}
