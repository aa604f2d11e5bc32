//! The tensors of a checkpoint, whatever the container: listed and checked up front, read by rows.
//!
//! Guarantee: nothing is allocated from a number in a file before that number was compared with the
//! file's length, and a tensor is never held as a whole unless asked for, so loading needs little more
//! memory than the weights it produces.

mod index;
mod mapped;
mod pickle;
mod safetensors;
mod torch;

use std::{collections::BTreeMap, ops::Range};

use half::{
    bf16, f16,
    slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _},
};

pub(crate) use mapped::MappedRows;
use treasure_text::printable;

use crate::{
    Blob, Error, Result, Source,
    gguf::{BlockType, Header},
};

/// Index files and headers beyond this are refused.
const MAX_INDEX: u64 = 64 << 20;

/// How numbers are stored in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// 32-bit floats.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 64-bit floats.
    F64,
    /// Blocks of a GGUF file.
    Blocks(BlockType),
    /// Anything else, such as an integer buffer; can be listed, not read.
    Other(String),
}

impl Stored {
    /// The same as blocks of a file, if kernels can read it there.
    pub(crate) fn blocks(&self) -> Option<BlockType> {
        match self {
            Self::F32 => Some(BlockType::F32),
            Self::F16 => Some(BlockType::F16),
            Self::Bf16 => Some(BlockType::BF16),
            Self::Blocks(kind) => Some(*kind),
            Self::F64 | Self::Other(_) => None,
        }
    }

    fn from_safetensors(name: &str) -> Self {
        match name {
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "F64" => Self::F64,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Bytes of one number, where that is a whole number and known.
    fn element_bytes(&self) -> Option<u64> {
        match self {
            Self::F32 => Some(4),
            Self::F16 | Self::Bf16 => Some(2),
            Self::F64 => Some(8),
            Self::Blocks(_) => None,
            Self::Other(name) => match name.as_str() {
                "I64" | "U64" => Some(8),
                "I32" | "U32" => Some(4),
                "I16" | "U16" => Some(2),
                "I8" | "U8" | "BOOL" => Some(1),
                _ => None,
            },
        }
    }
}

impl std::fmt::Display for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::F32 => f.write_str("f32"),
            Self::F16 => f.write_str("f16"),
            Self::Bf16 => f.write_str("bf16"),
            Self::F64 => f.write_str("f64"),
            Self::Blocks(kind) => write!(f, "{kind:?}"),
            Self::Other(name) => f.write_str(&printable(name)),
        }
    }
}

/// Where a tensor's bytes lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    file: usize,
    offset: u64,
    bytes: u64,
}

/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// How its numbers are stored.
    pub stored: Stored,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    pub(crate) place: Place,
    /// Whether a matrix lies column by column.
    pub(crate) transposed: bool,
}

/// All tensors of a checkpoint.
#[derive(Debug)]
pub struct Weights {
    files: Vec<Blob>,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Weights {
    /// Opens the weights of a Hugging Face layout: `model.safetensors`, its sharded index, or
    /// `pytorch_model.bin` and its index, in this order.
    pub fn open(source: &Source) -> Result<Self> {
        Self::find(source).map_err(Error::of_file)
    }

    fn find(source: &Source) -> Result<Self> {
        for (single, sharded, reader) in [
            (
                "model.safetensors",
                "model.safetensors.index.json",
                safetensors::read_header as fn(&Blob, usize) -> Result<_>,
            ),
            ("pytorch_model.bin", "pytorch_model.bin.index.json", torch::read_header),
        ] {
            if let Some(blob) = source.open(single)? {
                let tensors = reader(&blob, 0)?;
                return Ok(Self { files: vec![blob], tensors });
            }
            if let Some(blob) = source.open(sharded)? {
                let map = index::parse(&blob.text(MAX_INDEX)?)
                    .map_err(|error| error.within(blob.name()))?;
                return Self::sharded(source, &map, reader);
            }
        }
        Err(source.missing("model.safetensors"))
    }

    /// The weights of a GGUF file, from its header.
    pub fn from_gguf(blob: Blob, header: &Header) -> Self {
        let tensors = header
            .tensors
            .iter()
            .map(|(name, tensor)| {
                let place = Place { file: 0, offset: tensor.offset, bytes: tensor.bytes };
                let stored = match tensor.kind {
                    BlockType::F32 => Stored::F32,
                    BlockType::F16 => Stored::F16,
                    BlockType::BF16 => Stored::Bf16,
                    other => Stored::Blocks(other),
                };
                let shape = tensor.shape.clone();
                (name.clone(), TensorInfo { stored, shape, place, transposed: false })
            })
            .collect();
        Self { files: vec![blob], tensors }
    }

    fn sharded(
        source: &Source,
        map: &BTreeMap<String, String>,
        reader: fn(&Blob, usize) -> Result<BTreeMap<String, TensorInfo>>,
    ) -> Result<Self> {
        let mut shards: Vec<&String> = map.values().collect();
        shards.sort();
        shards.dedup();
        let mut files = Vec::new();
        let mut tensors: BTreeMap<String, TensorInfo> = BTreeMap::new();
        for shard in shards {
            let blob = source.require(shard)?;
            for (name, info) in reader(&blob, files.len())? {
                if map.get(&name) != Some(shard) {
                    return Err(Error::new(format!(
                        "{}: holds {name}, which the index places in {}",
                        blob.name(),
                        map.get(&name).map_or("no shard", String::as_str)
                    )));
                }
                tensors.insert(name, info);
            }
            files.push(blob);
        }
        let lost: Vec<&str> =
            map.keys().filter(|name| !tensors.contains_key(*name)).map(String::as_str).collect();
        if !lost.is_empty() {
            return Err(Error::new(format!(
                "{}: the index lists tensors that no shard holds: {}",
                source.name(),
                lost.join(", ")
            )));
        }
        Ok(Self { files, tensors })
    }

    /// The tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }

    /// Reads rows (along the first dimension) of a tensor into `out`, widened to f32.
    /// A vector counts as one number per row. A number that is none is an error.
    pub(crate) fn read_rows(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let info = self.tensors.get(name).ok_or_else(|| Error::new(format!("no tensor {name}")))?;
        let first = rows.start;
        if info.transposed {
            self.read_transposed(name, info, rows, out)?;
        } else {
            self.read_stored(name, info, rows, out)?;
        }
        if all_finite(out) {
            return Ok(());
        }
        let at = out.iter().position(|x| !x.is_finite()).unwrap_or(0);
        let width: usize = info.shape.iter().skip(1).product();
        let row = first + at / width.max(1);
        Err(Error::not_finite(format!("tensor {name}, row {row}"), out[at]).with_hint(
            "the weights are damaged, or overflowed when they were saved: fetch them again",
        ))
    }

    /// The rows of a matrix where they lie in the file, if it is mapped and they are stored row by row. Nothing
    /// is read: whether the numbers are finite shows where they are multiplied.
    pub(crate) fn mapped(&self, name: &str) -> Option<MappedRows> {
        let info = self.tensors.get(name)?;
        let kind = info.stored.blocks()?;
        let &[rows, width] = &info.shape[..] else { return None };
        if info.transposed || width == 0 || width % kind.numbers() != 0 {
            return None;
        }
        let row_bytes = width / kind.numbers() * kind.bytes();
        let (offset, bytes) = (info.place.offset, info.place.bytes);
        let map = self.files[info.place.file].mapping()?;
        let end = offset.checked_add(bytes).filter(|&end| end <= map.bytes().len() as u64);
        if end.is_none() || row_bytes as u64 * rows as u64 != bytes {
            return None;
        }
        Some(MappedRows { map, kind, offset: offset as usize, row_bytes, rows, order: None })
    }

    fn read_stored(
        &self,
        name: &str,
        info: &TensorInfo,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        let width: usize = info.shape.iter().skip(1).product();
        let total = info.shape.first().copied().unwrap_or(1);
        if rows.end > total || rows.len() * width != out.len() {
            return Err(Error::expected(
                format!("rows of {name}"),
                format!("{total} × {width}"),
                format!("{rows:?} into {}", out.len()),
            ));
        }
        let row_bytes = info.place.bytes / (total.max(1) as u64);
        let offset = info.place.offset + rows.start as u64 * row_bytes;
        let bytes = rows.len() as u64 * row_bytes;
        self.widen(name, info, offset, bytes, out)
    }

    /// A transposed matrix is small in practice: read as a whole, then gathered.
    fn read_transposed(
        &self,
        name: &str,
        info: &TensorInfo,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        let (total, width) = (info.shape[0], info.shape[1]);
        let mut columns = vec![0.0; total * width];
        self.widen(name, info, info.place.offset, info.place.bytes, &mut columns)?;
        for (row, out) in rows.zip(out.chunks_exact_mut(width.max(1))) {
            out.iter_mut().enumerate().for_each(|(k, x)| *x = columns[k * total + row]);
        }
        Ok(())
    }

    fn widen(
        &self,
        name: &str,
        info: &TensorInfo,
        offset: u64,
        bytes: u64,
        out: &mut [f32],
    ) -> Result<()> {
        let blob = &self.files[info.place.file];
        match &info.stored {
            Stored::F32 => {
                blob.read_at(offset, bytemuck::cast_slice_mut(out))?;
                out.iter_mut().for_each(|x| *x = f32::from_bits(u32::from_le(x.to_bits())));
            }
            Stored::F16 => {
                let words = self.words(info, offset, out.len())?;
                words.reinterpret_cast::<f16>().convert_to_f32_slice(out);
            }
            Stored::Bf16 => {
                let words = self.words(info, offset, out.len())?;
                words.reinterpret_cast::<bf16>().convert_to_f32_slice(out);
            }
            Stored::F64 => {
                let raw = blob.range(offset, bytes)?;
                let doubles = raw
                    .chunks_exact(8)
                    .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]));
                out.iter_mut().zip(doubles).for_each(|(x, double)| *x = double as f32);
            }
            Stored::Blocks(kind) => kind.widen(&blob.range(offset, bytes)?, out),
            Stored::Other(kind) => {
                return Err(Error::expected(name, "floating-point numbers", kind));
            }
        }
        Ok(())
    }

    /// `count` little-endian words of two bytes.
    fn words(&self, info: &TensorInfo, offset: u64, count: usize) -> Result<Vec<u16>> {
        let mut words = vec![0u16; count];
        self.files[info.place.file].read_at(offset, bytemuck::cast_slice_mut(&mut words))?;
        words.iter_mut().for_each(|word| *word = u16::from_le(*word));
        Ok(words)
    }

    /// Bytes of all tensors in the files.
    pub(crate) fn bytes(&self) -> u64 {
        self.tensors.values().map(|info| info.place.bytes).sum()
    }

    /// The storage most parameters have.
    pub(crate) fn main_type(&self) -> Option<Stored> {
        let mut counts: Vec<(Stored, u64)> = Vec::new();
        for info in self.tensors.values() {
            match counts.iter_mut().find(|(stored, _)| *stored == info.stored) {
                Some((_, bytes)) => *bytes += info.place.bytes,
                None => counts.push((info.stored.clone(), info.place.bytes)),
            }
        }
        counts.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(stored, _)| stored)
    }
}

/// Whether no number is NaN or infinite; without a branch per number, so that it costs next to nothing.
pub(crate) fn all_finite(numbers: &[f32]) -> bool {
    const EXPONENT: i32 = 0x7f80_0000;
    let largest = |largest: i32, x: &f32| largest.max((x.to_bits() & 0x7fff_ffff) as i32);
    numbers.iter().fold(0, largest) < EXPONENT
}

/// A shape whose number of elements fits in memory terms, or `None`.
pub(crate) fn checked_shape(shape: &[u64]) -> Option<Vec<usize>> {
    let mut elements: u64 = 1;
    for &dim in shape {
        elements = elements.checked_mul(dim.max(1))?;
    }
    (elements < 1 << 48 && shape.len() <= 8)
        .then(|| shape.iter().map(|&dim| dim as usize).collect())
}

/// Bytes of a shape at `size` bytes a number, if that does not overflow.
pub(crate) fn checked_bytes(shape: &[usize], size: u64) -> Option<u64> {
    shape.iter().try_fold(size, |bytes, &dim| bytes.checked_mul(dim as u64))
}
