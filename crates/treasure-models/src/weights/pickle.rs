//! `pytorch_model.bin`: the tensor list through candle's pickle reader, which runs no code; the data by range.
//!
//! candle's reader trusts its input in places (tuple lengths, nesting, copies of memoised objects), so
//! a bounded dry run over the opcodes comes first and refuses what `torch.save` does not write. The zip
//! container must be stored, not compressed, as PyTorch writes it.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read},
};

use candle_core::{DType, pickle::read_pth_tensor_info};

use super::{Place, Stored, TensorInfo, vet};
use crate::{Blob, Error, Result};

/// A state dict's list of tensors, however large the model, is far below this.
const MAX_PICKLE: u64 = 64 << 20;

/// Reads the tensor list of one file; `file` is its index among the opened ones.
pub(super) fn read_header(blob: &Blob, file: usize) -> Result<BTreeMap<String, TensorInfo>> {
    let place = blob.name();
    let Some(path) = blob.path() else {
        return Err(Error::expected(place, "a file on disk", "an embedded .bin"));
    };
    let malformed = |what: String| {
        Error::new(format!("{place}: is not a PyTorch checkpoint: {what}")).with_hint(
            "only the zip format of PyTorch 1.6 and later is read; saving the model as safetensors \
             always works",
        )
    };
    let opened = File::open(path)
        .map_err(|source| Error::new(format!("{place}: cannot be opened")).with_source(source))?;
    let mut zip = zip::ZipArchive::new(BufReader::new(opened))
        .map_err(|source| malformed("no zip archive".to_owned()).with_source(source))?;
    let mut entries = BTreeMap::new();
    let mut pickles = 0;
    for index in 0..zip.len() {
        let mut entry = zip
            .by_index(index)
            .map_err(|source| malformed(format!("entry {index}")).with_source(source))?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        if entry.compression() != zip::CompressionMethod::Stored {
            return Err(malformed(format!("{name} is compressed")));
        }
        let start = entry.data_start().unwrap_or(u64::MAX);
        if start.checked_add(entry.size()).is_none_or(|end| end > blob.len()) {
            return Err(malformed(format!("{name} reaches past the end of the file")));
        }
        if name.ends_with("data.pkl") {
            if entry.size() > MAX_PICKLE {
                return Err(malformed(format!("{name} has {} bytes", entry.size())));
            }
            let mut pickle = Vec::with_capacity(entry.size() as usize);
            entry
                .read_to_end(&mut pickle)
                .map_err(|source| malformed(name.clone()).with_source(source))?;
            vet::check(&pickle).map_err(|what| malformed(format!("{name}: {what}")))?;
            pickles += 1;
        }
        entries.insert(name, (start, entry.size()));
    }
    if pickles != 1 {
        return Err(malformed(format!("expected one data.pkl, got {pickles}")));
    }
    let listed = read_pth_tensor_info(path, false, None)
        .map_err(|source| malformed("its tensor list".to_owned()).with_source(source))?;
    if listed.is_empty() {
        return Err(malformed("it lists no tensor".to_owned()));
    }
    let mut tensors = BTreeMap::new();
    for info in listed {
        let name = info.name;
        let (stored, size) = match info.dtype {
            DType::F32 => (Stored::F32, 4),
            DType::F16 => (Stored::F16, 2),
            DType::BF16 => (Stored::Bf16, 2),
            DType::F64 => (Stored::F64, 8),
            DType::I64 => (Stored::Other("I64".to_owned()), 8),
            other => (Stored::Other(other.as_str().to_owned()), 1),
        };
        let dims: Vec<u64> = info.layout.dims().iter().map(|&dim| dim as u64).collect();
        let shape = super::checked_shape(&dims)
            .ok_or_else(|| malformed(format!("tensor {name} has shape {dims:?}")))?;
        let transposed = match strides(&shape, info.layout.stride()) {
            Some(transposed) => transposed,
            None => {
                return Err(malformed(format!(
                    "tensor {name} of shape {shape:?} has strides {:?}",
                    info.layout.stride()
                )));
            }
        };
        let (start, length) = *entries
            .get(&info.path)
            .ok_or_else(|| malformed(format!("tensor {name} has no data at {}", info.path)))?;
        let bytes = super::checked_bytes(&shape, size);
        let offset = info.layout.start_offset() as u64;
        let fits =
            bytes.and_then(|bytes| offset.checked_add(bytes)).is_some_and(|end| end <= length);
        let (Some(bytes), true) = (bytes, fits) else {
            return Err(malformed(format!(
                "tensor {name} of shape {shape:?} does not fit its {length} bytes"
            )));
        };
        let place = Place { file, offset: start + offset, bytes };
        tensors.insert(name, TensorInfo { stored, shape, place, transposed });
    }
    Ok(tensors)
}

/// `Some(false)` for row-major strides, `Some(true)` for a transposed matrix, `None` for anything else.
fn strides(shape: &[usize], strides: &[usize]) -> Option<bool> {
    if shape.len() != strides.len() {
        return None;
    }
    let mut expected = 1;
    let row_major = shape.iter().zip(strides).rev().all(|(&dim, &stride)| {
        let fits = dim <= 1 || stride == expected;
        expected *= dim.max(1);
        fits
    });
    if row_major {
        return Some(false);
    }
    (shape.len() == 2 && strides[0] == 1 && strides[1] == shape[0]).then_some(true)
}
