//! Runs the cells of a plan, one after the other, into a store.
//!
//! Guarantee: a cell that fails stops the run with an error that names it; what was finished stays.

pub mod calibrate;
pub mod figures;
pub mod method;
mod progress;
pub mod search;
mod text_world;
mod world;

use std::path::Path;

pub use progress::{Progress, duration};
pub use text_world::TextWorld;
pub use world::{Indifferent, Reading, World};

use crate::{
    Error, Result,
    config::Kind,
    plan::{Cell, Plan},
    row::Row,
    shard::Shard,
    store::Store,
};

/// Runs one cell.
pub fn cell(
    world: &dyn World,
    plan: &Plan,
    cell: &Cell,
    fingerprint: &str,
    directory: Option<&Path>,
) -> Result<Row> {
    match plan.kind {
        Kind::Search => {
            let traces = directory.filter(|_| plan.traced(cell));
            search::run(world, plan, cell, fingerprint, traces)
        }
        Kind::Branching => figures::branching(world, plan, cell, fingerprint),
        Kind::Variation => figures::variation(world, plan, cell, fingerprint),
    }
}

/// Runs the cells of a shard that the store lacks; returns how many were run.
pub fn all(
    world: &dyn World,
    plan: &Plan,
    shard: Shard,
    store: &mut Store,
    directory: &Path,
    quiet: bool,
) -> Result<usize> {
    let cells = shard.cells(plan);
    let todo: Vec<&Cell> = cells.iter().filter(|cell| !store.is_finished(&cell.id)).collect();
    let weight = todo.iter().map(|cell| plan.weight(cell)).sum();
    let mut progress = Progress::new(quiet, cells.len(), cells.len() - todo.len(), weight);
    for next in &todo {
        let row =
            cell(world, plan, next, store.fingerprint(), Some(directory)).map_err(|error| {
                progress.end();
                Error::Sample { id: next.id.clone(), kept: store.kept(), source: Box::new(error) }
            })?;
        store.append(&row)?;
        progress.done(next, &row, plan.weight(next));
    }
    progress.end();
    Ok(todo.len())
}
