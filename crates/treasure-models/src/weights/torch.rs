//! `pytorch_model.bin`: a zip archive with a pickled list of tensors and one stored entry per storage.
//!
//! Only the list is read here, by [`super::pickle`], which runs nothing; numbers are read by range later. The
//! archive must be stored, not compressed, as PyTorch writes it.

use std::{
    collections::BTreeMap,
    io::{BufReader, Read, Seek, SeekFrom},
};

use super::{Place, Stored, TensorInfo, pickle};
use crate::{Blob, Error, Result};

/// A state dict's list of tensors, however large the model, is far below this.
const MAX_PICKLE: u64 = 64 << 20;

/// Reads the tensor list of one file; `file` is its index among the opened ones.
pub(super) fn read_header(blob: &Blob, file: usize) -> Result<BTreeMap<String, TensorInfo>> {
    let place = blob.name();
    let malformed = |what: String| {
        Error::new(format!("{place}: is not a PyTorch checkpoint: {what}")).with_hint(
            "only the zip format of PyTorch 1.6 and later is read; saving the model as safetensors \
             always works",
        )
    };
    let mut zip = zip::ZipArchive::new(BufReader::new(Cursor { blob, at: 0 }))
        .map_err(|source| malformed("no zip archive".to_owned()).with_source(source))?;
    let mut entries = BTreeMap::new();
    let mut lists = Vec::new();
    for index in 0..zip.len() {
        let mut entry = zip
            .by_index(index)
            .map_err(|source| malformed(format!("entry {index}")).with_source(source))?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        if entry.compression() != zip::CompressionMethod::Stored {
            return Err(malformed(format!("{name} is compressed")));
        }
        let end = |start: u64| start.checked_add(entry.size()).filter(|&end| end <= blob.len());
        let Some(start) = entry.data_start().filter(|&start| end(start).is_some()) else {
            return Err(malformed(format!("{name} reaches past the end of the file")));
        };
        if name.ends_with("data.pkl") || name.ends_with("/byteorder") {
            if entry.size() > MAX_PICKLE {
                return Err(malformed(format!("{name} has {} bytes", entry.size())));
            }
            let mut bytes = Vec::with_capacity(entry.size() as usize);
            entry
                .read_to_end(&mut bytes)
                .map_err(|source| malformed(name.clone()).with_source(source))?;
            match name.strip_suffix("data.pkl") {
                Some(folder) => lists.push((folder.to_owned(), bytes)),
                None if bytes.trim_ascii() != b"little" => {
                    return Err(malformed(format!("{name}: expected little")));
                }
                None => {}
            }
        }
        entries.insert(name, (start, entry.size()));
    }
    let [(folder, list)] = &lists[..] else {
        return Err(malformed(format!("expected one data.pkl, got {}", lists.len())));
    };
    let listed =
        pickle::tensors(list).map_err(|what| malformed(format!("{folder}data.pkl: {what}")))?;
    if listed.is_empty() {
        return Err(malformed("it lists no tensor".to_owned()));
    }
    let mut tensors = BTreeMap::new();
    for (name, tensor) in listed {
        let data = format!("{folder}data/{}", tensor.storage.key);
        let (start, length) = *entries
            .get(&data)
            .ok_or_else(|| malformed(format!("tensor {name} has no data at {data}")))?;
        let info = view(file, &tensor, start, length)
            .map_err(|what| malformed(format!("tensor {name} {what}")))?;
        tensors.insert(name.as_ref().to_owned(), info);
    }
    Ok(tensors)
}

/// Where a tensor's numbers lie in the `length` bytes of its storage from `start` on.
fn view(
    file: usize,
    tensor: &pickle::Tensor,
    start: u64,
    length: u64,
) -> Result<TensorInfo, String> {
    let stored = stored(&tensor.storage.class)
        .ok_or_else(|| format!("is of class {}", tensor.storage.class))?;
    let size = stored.element_bytes().ok_or("is of an unknown size")?;
    let dims = &tensor.shape;
    let shape = super::checked_shape(dims).ok_or_else(|| format!("has shape {dims:?}"))?;
    let transposed = transposed(dims, &tensor.strides)
        .ok_or_else(|| format!("of shape {shape:?} has strides {:?}", tensor.strides))?;
    let bytes = super::checked_bytes(&shape, size);
    let offset = tensor.offset.checked_mul(size);
    let end = bytes.zip(offset).and_then(|(bytes, offset)| offset.checked_add(bytes));
    match (bytes, offset, end) {
        (Some(bytes), Some(offset), Some(end)) if end <= length => {
            let place = Place { file, offset: start + offset, bytes };
            Ok(TensorInfo { stored, shape, place, transposed })
        }
        _ => Err(format!("of shape {shape:?} does not fit its {length} bytes")),
    }
}

/// How the numbers of a storage class are stored.
fn stored(class: &str) -> Option<Stored> {
    let other = |name: &str| Stored::Other(name.to_owned());
    Some(match class.strip_prefix("torch.")? {
        "FloatStorage" => Stored::F32,
        "HalfStorage" => Stored::F16,
        "BFloat16Storage" => Stored::Bf16,
        "DoubleStorage" => Stored::F64,
        "LongStorage" => other("I64"),
        "IntStorage" => other("I32"),
        "ShortStorage" => other("I16"),
        "CharStorage" => other("I8"),
        "ByteStorage" => other("U8"),
        "BoolStorage" => other("BOOL"),
        _ => return None,
    })
}

/// `Some(false)` for row-major strides, `Some(true)` for a transposed matrix, `None` for anything else.
fn transposed(shape: &[u64], strides: &[u64]) -> Option<bool> {
    if shape.len() != strides.len() {
        return None;
    }
    let mut expected: u64 = 1;
    let row_major = shape.iter().zip(strides).rev().all(|(&dim, &stride)| {
        let fits = dim <= 1 || stride == expected;
        expected = expected.saturating_mul(dim.max(1));
        fits
    });
    if row_major {
        return Some(false);
    }
    (shape.len() == 2 && strides[0] == 1 && strides[1] == shape[0]).then_some(true)
}

/// A blob read from front to back.
struct Cursor<'a> {
    blob: &'a Blob,
    at: u64,
}

impl Read for Cursor<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let left = self.blob.len().saturating_sub(self.at);
        let count = left.min(to.len() as u64) as usize;
        self.blob.read_at(self.at, &mut to[..count]).map_err(std::io::Error::other)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.blob.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
