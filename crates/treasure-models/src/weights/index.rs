//! `*.index.json`: which shard holds which tensor. A shard name must be a plain file name beside it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Error, Result};

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Tensor name → shard file name.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>> {
    let index: Index = serde_json::from_str(text).map_err(|source| {
        Error::expected("index", "an object with weight_map", "something else").with_source(source)
    })?;
    if index.weight_map.is_empty() {
        return Err(Error::expected("index", "a weight_map with tensors", "an empty one"));
    }
    for (tensor, shard) in &index.weight_map {
        let plain = !shard.is_empty()
            && !shard.contains(['/', '\\', ':', '\0'])
            && shard != ".."
            && shard != ".";
        if !plain {
            return Err(Error::expected(
                format!("index: shard of {tensor}"),
                "a file name in the same directory",
                format!("{shard:?}"),
            ));
        }
    }
    Ok(index.weight_map)
}
