//! The largest sensible value of every count, duration and size: one table for every door, checked
//! when a request becomes a plan, before anything is allocated.

use serde_json::{Map, Value};

use crate::{Error, Result};

/// What an option may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The option.
    pub option: &'static str,
    /// The largest value.
    pub most: u64,
    /// Why not more.
    pub why: &'static str,
}

/// Every bound.
pub const BOUNDS: &[Bound] = &[
    Bound { option: "length", most: 65_536, why: "no model reads longer sequences" },
    Bound { option: "samples", most: 1_000_000, why: "rows are kept in order" },
    Bound { option: "beam_width", most: 100_000, why: "every child is a sequence in memory" },
    Bound { option: "widen", most: 100_000, why: "every child is a sequence in memory" },
    Bound { option: "tree_width", most: 100_000, why: "every node is a sequence in memory" },
    Bound { option: "groups", most: 65_536, why: "there are no more positions" },
    Bound { option: "particles", most: 100_000, why: "every particle is a sequence in memory" },
    Bound { option: "chains", most: 10_000, why: "every chain is a sequence in memory" },
    Bound { option: "x0_samples", most: 100_000, why: "every completion is a sequence in memory" },
    Bound { option: "steps", most: 1_000_000, why: "a step that changes nothing teaches nothing" },
    Bound { option: "code_block", most: 1_000_000, why: "there are no more steps" },
    Bound { option: "resample_every", most: 1_000_000, why: "there are no more steps" },
    Bound { option: "expand", most: 100_000, why: "every chain is a sequence in memory" },
    Bound { option: "wide", most: 10_000, why: "every candidate is a sequence in memory" },
    Bound { option: "iterations", most: 1_000_000, why: "each is a search of its own" },
    Bound { option: "branch_every", most: 1_000_000, why: "there are no more steps" },
    Bound { option: "tries", most: 100_000, why: "every try is a sequence in memory" },
    Bound { option: "rounds", most: 10_000, why: "each is a search of its own" },
    Bound { option: "final_rounds", most: 10_000, why: "each is a search of its own" },
    Bound { option: "refine_every", most: 1_000_000, why: "there are no more steps" },
    Bound { option: "look_every", most: 1_000_000, why: "there are no more steps" },
    Bound { option: "backtracks", most: 10_000, why: "each is a search of its own" },
    Bound { option: "max_seconds", most: 31_536_000, why: "that is a year" },
    Bound { option: "in_flight", most: 1_000, why: "every search has a thread of its own" },
    Bound { option: "batch_size", most: 1_000_000, why: "a batch is in memory as a whole" },
    Bound { option: "reward_batch", most: 1_000_000, why: "a batch is in memory as a whole" },
    Bound { option: "top", most: 1_000_000, why: "no vocabulary is larger" },
    Bound { option: "continuations", most: 100_000, why: "every one is a row" },
    Bound { option: "cells", most: 5_000_000, why: "the rows of an experiment are listed first" },
    Bound { option: "shard", most: 100_000, why: "every cell looks at every shard" },
];

/// Children of one step that are kept in memory at once.
const CHILDREN: u64 = 2_000_000;

impl Bound {
    /// The bound of an option, if it has one.
    pub fn of(option: &str) -> Option<&'static Self> {
        BOUNDS.iter().find(|bound| bound.option == option)
    }

    /// What to do instead, for a hint.
    pub fn advice(&self) -> String {
        format!("{}: take {} or less", self.why, self.most)
    }
}

/// Refuses a number above its bound.
pub(crate) fn check(option: &str, number: u64) -> Result<()> {
    match Bound::of(option) {
        Some(bound) if number > bound.most => {
            let message = format!("{option}: expected at most {}, got {number}", bound.most);
            Err(Error::request(message).with_hint(bound.advice()))
        }
        _ => Ok(()),
    }
}

/// Refuses options above their bounds, those of a method inside another too.
pub(crate) fn check_options(options: &Map<String, Value>) -> Result<()> {
    for (option, value) in options {
        match value {
            Value::Object(inner) => check_options(inner)?,
            // A float beyond every integer is as large as an integer can be.
            Value::Number(number) => {
                let float = || number.as_f64().map(|number| number.ceil() as u64);
                check(option, number.as_u64().or_else(float).unwrap_or(0))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses widths whose children cannot be held at once.
pub(crate) fn check_children(beam: usize, groups: usize, width: usize) -> Result<()> {
    let children = (beam as u64).saturating_mul(groups as u64).saturating_mul(width as u64);
    if children <= CHILDREN {
        return Ok(());
    }
    let fits = (CHILDREN / (beam as u64).saturating_mul(groups as u64).max(1)).max(1);
    Err(Error::request(format!(
        "tree_width: expected at most {CHILDREN} children a step, got {children} (beam_width {beam} × \
         groups {groups} × tree_width {width})"
    ))
    .with_hint(format!("with this beam width take tree_width {fits} or less")))
}
