//! The safetensors header: names, types, shapes and byte ranges, checked before anything is allocated.
//!
//! Format: 8 bytes little-endian header length, a JSON object, then the data
//! (<https://github.com/huggingface/safetensors>). Ranges must lie in the file, match shape × type, and
//! not overlap.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Place, Stored, TensorInfo};
use crate::{Blob, Error, Result};

/// The format's own limit on the header.
const MAX_HEADER: u64 = 100_000_000;

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Reads the header of one file; `file` is its index among the opened ones.
pub(super) fn read_header(blob: &Blob, file: usize) -> Result<BTreeMap<String, TensorInfo>> {
    let place = blob.name();
    let mut length = [0; 8];
    if blob.len() < 8 {
        return Err(damaged(place, format!("expected at least 8 bytes, got {}", blob.len())));
    }
    blob.read_at(0, &mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER || length > blob.len() - 8 {
        return Err(damaged(
            place,
            format!("the header claims {length} bytes, the file has {}", blob.len()),
        ));
    }
    let header = blob.range(8, length)?;
    let entries = parse(&header).map_err(|error| error.within(place))?;
    let data_start = 8 + length;
    let data_len = blob.len() - data_start;
    let mut ranges = Vec::with_capacity(entries.len());
    let mut tensors = BTreeMap::new();
    for (name, entry) in entries {
        let (start, end) = entry.data_offsets;
        if start > end || end > data_len {
            return Err(damaged(
                place,
                format!("tensor {name} claims bytes {start}..{end}, the data has {data_len}"),
            ));
        }
        let stored = Stored::from_safetensors(&entry.dtype);
        let shape = super::checked_shape(&entry.shape)
            .ok_or_else(|| damaged(place, format!("tensor {name} has shape {:?}", entry.shape)))?;
        if let Some(size) = stored.element_bytes() {
            let wanted = super::checked_bytes(&shape, size);
            if wanted != Some(end - start) {
                return Err(damaged(
                    place,
                    format!(
                        "tensor {name} of shape {shape:?} and type {} needs {} bytes, its range has {}",
                        entry.dtype,
                        wanted.map_or_else(|| "too many".to_owned(), |n| n.to_string()),
                        end - start
                    ),
                ));
            }
        }
        ranges.push((start, end));
        let place = Place { file, offset: data_start + start, bytes: end - start };
        tensors.insert(name, TensorInfo { stored, shape, place, transposed: false });
    }
    ranges.sort_unstable();
    if let Some(pair) = ranges.windows(2).find(|pair| pair[1].0 < pair[0].1) {
        return Err(damaged(place, format!("two tensors share the bytes from {}", pair[1].0)));
    }
    Ok(tensors)
}

fn parse(header: &[u8]) -> Result<BTreeMap<String, Entry>> {
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header)
        .map_err(|source| {
            Error::new("the safetensors header is not a JSON object").with_source(source)
        })?;
    object.remove("__metadata__");
    object
        .into_iter()
        .map(|(name, value)| match serde_json::from_value(value) {
            Ok(entry) => Ok((name, entry)),
            Err(source) => {
                Err(Error::new(format!("the header entry of tensor {name} is malformed"))
                    .with_source(source))
            }
        })
        .collect()
}

fn damaged(place: &str, what: String) -> Error {
    Error::new(format!("{place}: {what}"))
        .with_hint("the file is truncated or damaged: fetch it again")
}
