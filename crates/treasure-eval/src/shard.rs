//! Which part of a plan one process computes.
//!
//! Guarantee: the shards 0…N−1 cover every cell once, and nothing but the plan and N decides which
//! cell goes where.

use std::str::FromStr;

use serde::Serialize;
use sha2::{Digest, Sha256};
use treasure::Bound;

use crate::{Error, Result, plan::Plan};

/// Shard `index` of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Shard {
    /// From 0.
    pub index: usize,
    /// At least 1.
    pub count: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        format!("{}/{}", shard.index, shard.count)
    }
}

impl FromStr for Shard {
    type Err = Error;

    /// `i/N`. People count from 0 or from 1: shard N of N is shard 0, so both cover everything.
    fn from_str(text: &str) -> Result<Self> {
        let most = Bound::of("shard").map_or(usize::MAX, |bound| bound.most as usize);
        let invalid = || Error::Invalid {
            what: "shard".into(),
            expected: format!("i/N with 0 ≤ i ≤ N and N from 1 to {most}"),
            got: text.into(),
        };
        let (index, count) = text.split_once('/').ok_or_else(invalid)?;
        let index: usize = index.trim().parse().map_err(|_| invalid())?;
        let count: usize = count.trim().parse().map_err(|_| invalid())?;
        if count == 0 || count > most || index > count {
            return Err(invalid());
        }
        Ok(Self { index: index % count, count })
    }
}

impl Shard {
    /// The shard of a Slurm array task, or the whole outside an array. `variable` reads the environment.
    pub fn from_slurm(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let Some(task) = variable("SLURM_ARRAY_TASK_ID") else { return Ok(Self::default()) };
        let number = |name: &str, text: &str| {
            text.trim().parse::<usize>().map_err(|_| Error::Invalid {
                what: name.into(),
                expected: "a number".into(),
                got: text.into(),
            })
        };
        let read = |name: &str, default: usize| match variable(name) {
            Some(text) => number(name, &text),
            None => Ok(default),
        };
        let task = number("SLURM_ARRAY_TASK_ID", &task)?;
        let min = read("SLURM_ARRAY_TASK_MIN", 0)?;
        let step = read("SLURM_ARRAY_TASK_STEP", 1)?.max(1);
        let count = match variable("SLURM_ARRAY_TASK_COUNT") {
            Some(text) => number("SLURM_ARRAY_TASK_COUNT", &text)?,
            None => read("SLURM_ARRAY_TASK_MAX", task)?.saturating_sub(min) / step + 1,
        };
        let offset = task.checked_sub(min).filter(|offset| offset % step == 0).map(|o| o / step);
        match offset {
            Some(index) if index < count => Ok(Self { index, count }),
            _ => Err(Error::Invalid {
                what: "SLURM_ARRAY_TASK_ID".into(),
                expected: format!(
                    "an array without gaps ({count} tasks from {min} in steps of {step}), or a shard i/N"
                ),
                got: task.to_string(),
            }),
        }
    }

    /// The cells of this shard, in the plan's order: the heaviest first to the least loaded shard, and
    /// equally heavy ones in the order of their hashes, so that no reward ends up in one shard.
    pub fn cells(self, plan: &Plan) -> Vec<crate::plan::Cell> {
        let cells = plan.cells();
        if self.count == 1 {
            return cells;
        }
        let mut order: Vec<_> = cells
            .iter()
            .map(|cell| (plan.weight(cell), Sha256::digest(cell.id.as_bytes()), cell.index))
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut load = vec![0.0; self.count];
        let mut mine = vec![false; cells.len()];
        for (weight, _, index) in order {
            let lightest = (0..self.count).min_by(|&a, &b| f64::total_cmp(&load[a], &load[b]));
            let shard = lightest.expect("there is at least one shard");
            load[shard] += weight;
            mine[index] = shard == self.index;
        }
        cells.into_iter().filter(|cell| mine[cell.index]).collect()
    }
}
