//! What it takes to run a denoiser on this machine, before its weights are there.

use serde_json::{Map, Value, json};
use treasure_core::Method;
use treasure_models::{Description, Role, operations_per_second};

use crate::Result;

/// Tokens that a text is reckoned with.
const TOKENS: usize = 128;

/// Memory, and seconds a token by the nominal cost of methods; none for what is no denoiser. The speed is
/// that of one layer in the precision of the checkpoint, timed; rewards, attention and whatever else runs come on top.
pub fn needs(what: &Description) -> Result<Option<Value>> {
    let (Role::Denoiser, Some(width), Some(vocabulary)) =
        (what.architecture.role(), what.width, what.vocabulary)
    else {
        return Ok(None);
    };
    let speed = operations_per_second(what)?;
    let table = (width * vocabulary) as f64;
    // Every position runs through the body, and its masks (half of them on the way) through the head.
    let body = (what.parameters as f64 - 2.0 * table).max(0.0);
    let pass = 2.0 * TOKENS as f64 * (body + 0.5 * table) / speed;
    let costs = ["llada", "treasure"].into_iter().filter_map(|name| {
        let method = Method::named(name)?;
        let cost = method.search().nominal_cost(TOKENS);
        let seconds = cost.nfe as f64 * pass / TOKENS as f64;
        Some((name.to_owned(), json!({"nfe": cost.nfe, "seconds_a_token": seconds})))
    });
    Ok(Some(json!({
        "memory_bytes": what.memory_bytes,
        "tokens": TOKENS,
        "precision": what.precision.name(),
        "operations_per_second": speed,
        "seconds_a_pass": pass,
        "methods": Map::from_iter(costs),
    })))
}
