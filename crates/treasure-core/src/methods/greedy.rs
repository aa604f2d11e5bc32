//! First-hitting argmax decoding: random order, likeliest token, no reward until the end.
//! Draws by state, so it walks the path of TReASURe with b = m = 1: the fair control for its mode
//! seeking.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Nominal, Search, plan_of};
use crate::{
    Key, Problem, Result, Width,
    population::Population,
    propose::{DrawBy, FirstHitting, Order, Reveal},
    run::Stepper,
    select::KeepAll,
    value::FinalReward,
};

/// Greedy decoding, one token a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Greedy {
    /// Which mask is revealed next.
    pub order: Order,
}

impl Search for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn nominal_cost(&self, masks: usize) -> Nominal {
        Nominal::new(masks, 1)
    }

    fn plan(&self) -> Value {
        plan_of(self)
    }

    fn begin(&self, problem: &Problem<'_>, _: Key) -> Result<Box<dyn Stepper>> {
        let reveal = Reveal::Top { beam: Width::Constant(1), groups: 1, min_p: 0.0, widen: 0 };
        let (order, draws) = (self.order, DrawBy::State);
        let parts = Population {
            size: 1,
            propose: Box::new(FirstHitting { draws, order, ..FirstHitting::new(reveal) }),
            value: Box::new(FinalReward),
            select: Box::new(KeepAll),
        };
        Ok(Box::new(parts.begin(problem.start())))
    }
}
