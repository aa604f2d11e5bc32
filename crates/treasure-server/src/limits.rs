//! What a request may ask for at most: the library's bounds, lowered to what one machine can serve.

use std::collections::BTreeMap;

use serde_json::Value;
use treasure::{BOUNDS, Error, Plan, core::Width, nearest};

use crate::refusal::{Refusal, Result};

/// The server's own limits, all below the bounds.
const DEFAULTS: &[(&str, u64)] = &[
    ("length", 2_048),
    ("samples", 128),
    ("beam_width", 64),
    ("tree_width", 64),
    ("groups", 16),
    ("particles", 256),
    ("chains", 64),
    ("x0_samples", 64),
    ("steps", 4_096),
    ("code_block", 4_096),
    ("resample_every", 4_096),
    ("looks", 8),
];

/// Budgets that an operator may set for every search.
pub(crate) const BUDGETS: [&str; 2] = ["max_nfe", "max_reward_calls"];

/// The largest value of every option that has one.
pub(crate) struct Limits(BTreeMap<String, u64>);

impl Limits {
    /// The defaults with the operator's own over them.
    pub fn new(own: &BTreeMap<String, u64>) -> treasure::Result<Self> {
        let mut limits = BTreeMap::new();
        for bound in BOUNDS {
            let ours = DEFAULTS.iter().find(|(option, _)| *option == bound.option);
            limits.insert(bound.option.to_owned(), ours.map_or(bound.most, |&(_, most)| most));
        }
        for (option, &most) in own {
            let bound = BOUNDS.iter().find(|bound| bound.option == option);
            match bound {
                Some(bound) if most == 0 || most > bound.most => {
                    let message =
                        format!("limits: {option}: expected 1 to {}, got {most}", bound.most);
                    return Err(Error::request(message));
                }
                None if !BUDGETS.contains(&option.as_str()) => {
                    let known = BOUNDS.iter().map(|bound| bound.option).chain(BUDGETS);
                    let error = Error::request(format!("limits: {option}: there is no such limit"));
                    return Err(match nearest(option, known) {
                        Some(near) => error.with_hint(format!("did you mean {near}?")),
                        None => error,
                    });
                }
                _ => limits.insert(option.clone(), most),
            };
        }
        Ok(Self(limits))
    }

    /// The largest value of an option.
    pub fn most(&self, option: &str) -> Option<u64> {
        self.0.get(option).copied()
    }

    /// Refuses a number above its limit.
    pub fn check(&self, option: &str, param: &str, number: u64) -> Result<()> {
        match self.most(option) {
            Some(most) if number > most => {
                Err(Refusal::field(param, format_args!("expected at most {most}, got {number}"))
                    .with_hint(format!("this server's limit: take {most} or less")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a plan with an option above its limit, and lowers its budgets to the operator's.
    pub fn apply(&self, plan: &mut Plan, length_is: &str) -> Result<()> {
        self.check("length", length_is, plan.length as u64)?;
        for (option, value) in plan.method.options() {
            let number = match &value {
                Value::Number(number) => number.as_u64(),
                // A width that changes from step to step.
                Value::String(text) => text.parse().ok().map(|width: Width| width.widest() as u64),
                _ => None,
            };
            if let Some(number) = number {
                self.check(&option, &format!("treasure.{option}"), number)?;
            }
        }
        let lower = |asked: Option<u64>, option: &str| match (asked, self.most(option)) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, most) => asked.or(most),
        };
        plan.max_nfe = lower(plan.max_nfe, "max_nfe");
        plan.max_reward_calls = lower(plan.max_reward_calls, "max_reward_calls");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_lowers_a_bound() {
        for (option, most) in DEFAULTS {
            let bound = BOUNDS.iter().find(|bound| bound.option == *option);
            assert!(bound.is_some_and(|bound| *most <= bound.most), "{option}");
        }
    }

    #[test]
    fn an_operator_may_lower_a_bound_and_not_raise_it() {
        let own = |option: &str, most| BTreeMap::from([(option.to_owned(), most)]);
        assert_eq!(Limits::new(&own("length", 16)).unwrap().most("length"), Some(16));
        assert_eq!(Limits::new(&own("length", 65_536)).unwrap().most("length"), Some(65_536));
        assert!(Limits::new(&own("length", 65_537)).is_err());
        let error = Limits::new(&own("beam_widht", 3)).err().unwrap();
        assert_eq!(error.hint(), Some("did you mean beam_width?"));
    }
}
