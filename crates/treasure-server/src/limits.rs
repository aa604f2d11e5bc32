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
    ("widen", 64),
    ("tree_width", 64),
    ("groups", 16),
    ("particles", 256),
    ("chains", 64),
    ("x0_samples", 64),
    ("steps", 4_096),
    ("code_block", 4_096),
    ("resample_every", 4_096),
    ("expand", 64),
    ("wide", 64),
    ("iterations", 4_096),
    ("branch_every", 4_096),
    ("tries", 256),
    ("rounds", 64),
    ("final_rounds", 256),
    ("refine_every", 4_096),
    ("look_every", 4_096),
    ("backtracks", 64),
];

/// Options of which the larger counts: the tokens tried per position.
const TRIED: [&str; 2] = ["beam_width", "widen"];
/// Options that multiply, with the tokens tried, to the texts that one step holds.
const WIDTHS: [&str; 8] =
    ["tree_width", "groups", "particles", "chains", "expand", "wide", "x0_samples", "tries"];
/// Texts that one step may hold: widths that are each allowed may multiply to more than fits.
const TEXTS: u64 = 65_536;

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

    /// Refuses options above their limits, those of a method inside another too.
    fn check_options(
        &self,
        under: &str,
        options: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<()> {
        let (mut texts, mut tried) = (1u64, 1u64);
        for (option, value) in options {
            let param = format!("{under}.{option}");
            let number = match value {
                Value::Number(number) => {
                    number.as_u64().or_else(|| number.as_f64().map(|number| number.ceil() as u64))
                }
                // A width that changes from step to step.
                Value::String(text) => text.parse().ok().map(|width: Width| width.widest() as u64),
                Value::Object(inner) => {
                    self.check_options(&param, inner)?;
                    None
                }
                _ => None,
            };
            let Some(number) = number else { continue };
            self.check(&option, &param, number)?;
            if TRIED.contains(&option.as_str()) {
                tried = tried.max(number);
            } else if WIDTHS.contains(&option.as_str()) {
                texts = texts.saturating_mul(number.max(1));
            }
        }
        texts = texts.saturating_mul(tried);
        if texts > TEXTS {
            let message = format!("expected at most {TEXTS} texts a step, got {texts}");
            return Err(Refusal::field(format!("{under}.method"), message)
                .with_hint("these widths multiply: take smaller ones"));
        }
        Ok(())
    }

    /// Refuses a plan with an option above its limit, and lowers its budgets to the operator's.
    pub fn apply(&self, plan: &mut Plan, length_is: &str) -> Result<()> {
        self.check("length", length_is, plan.length as u64)?;
        self.check_options("treasure", plan.method.options())?;
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
    use serde_json::json;

    use super::*;
    use treasure::Hint as _;

    #[test]
    fn every_default_lowers_a_bound() {
        for (option, most) in DEFAULTS {
            let bound = BOUNDS.iter().find(|bound| bound.option == *option);
            assert!(bound.is_some_and(|bound| *most <= bound.most), "{option}");
        }
    }

    #[test]
    fn widths_that_multiply_to_too_much_are_refused() {
        let limits = Limits::new(&BTreeMap::new()).unwrap();
        let apply = |request: Value| {
            let request = treasure::Request::from_value(request).unwrap();
            limits.apply(&mut Plan::new(&request).unwrap(), "length").map_err(|r| r.param.unwrap())
        };
        let dsearch = |chains: u64, wide: f64| {
            apply(
                json!({"method": "dsearch", "particles": 64, "chains": chains, "expand": 4, "wide": wide}),
            )
        };
        assert_eq!(dsearch(4, 2.0), Ok(()));
        assert_eq!(dsearch(64, 8.0), Err("treasure.method".into()));
        assert_eq!(dsearch(4, 1e3), Err("treasure.wide".into()));
        let refine = |beam: u64| {
            let inner = json!({"method": "treasure", "beam_width": beam, "tree_width": 2});
            apply(json!({"method": "refine", "inner": inner}))
        };
        assert_eq!(refine(4), Ok(()));
        assert_eq!(refine(99), Err("treasure.inner.beam_width".into()));
        assert_eq!(apply(json!({"method": "pg", "particles": 64, "iterations": 4096})), Ok(()));
    }

    #[test]
    fn an_operator_may_lower_a_bound_and_not_raise_it() {
        let own = |option: &str, most| BTreeMap::from([(option.to_owned(), most)]);
        assert_eq!(Limits::new(&own("length", 16)).unwrap().most("length"), Some(16));
        assert_eq!(Limits::new(&own("length", 65_536)).unwrap().most("length"), Some(65_536));
        assert!(Limits::new(&own("length", 65_537)).is_err());
        let error = Limits::new(&own("beam_widht", 3)).err().unwrap();
        assert_eq!(error.hint().as_deref(), Some("did you mean beam_width?"));
    }
}
