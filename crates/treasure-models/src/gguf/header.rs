//! The GGUF header: metadata and tensor list, read with every length checked against the file first.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, little-endian, versions 2 and 3.

use std::collections::BTreeMap;

use super::BlockType;
use crate::{Blob, Error, Result};

const MAX_DIMENSIONS: u32 = 4;
const MAX_TENSORS: u64 = 1 << 20;
const MAX_ENTRIES: u64 = 1 << 20;
const WINDOW: usize = 1 << 16;

/// A metadata value. Arrays hold what a tokenizer needs: strings or numbers, never arrays.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any integer type.
    Integer(i128),
    /// f32 or f64.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(String),
    /// An array of texts.
    Texts(Vec<String>),
    /// An array of numbers or truth values.
    Numbers(Vec<f64>),
}

/// A tensor's type, shape (outermost first) and bytes in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufTensor {
    /// How it is stored.
    pub kind: BlockType,
    /// Rows first.
    pub shape: Vec<usize>,
    /// From the start of the file.
    pub offset: u64,
    /// How many bytes it takes.
    pub bytes: u64,
}

/// What a GGUF file says about itself.
#[derive(Debug)]
pub struct Header {
    /// Key → value.
    pub metadata: BTreeMap<String, Value>,
    /// Name → tensor.
    pub tensors: BTreeMap<String, GgufTensor>,
}

impl Header {
    /// Reads the header of a file.
    pub fn read(blob: &Blob) -> Result<Self> {
        let mut reader = Reader { blob, at: 0, window: Vec::new(), window_start: 0 };
        reader.header().map_err(|error| error.within(blob.name()).of_file())
    }

    /// A value that must be there.
    pub fn require(&self, key: &str) -> Result<&Value> {
        self.metadata.get(key).ok_or_else(|| Error::new(format!("GGUF metadata has no {key}")))
    }

    /// A text that must be there.
    pub fn text(&self, key: &str) -> Result<&str> {
        match self.require(key)? {
            Value::Text(text) => Ok(text),
            other => Err(Error::expected(format!("GGUF {key}"), "text", format!("{other:?}"))),
        }
    }

    /// A non-negative integer, if the key is there.
    pub fn integer(&self, key: &str) -> Result<Option<u64>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Integer(n)) if *n >= 0 && *n <= i128::from(u64::MAX) => Ok(Some(*n as u64)),
            Some(other) => {
                Err(Error::expected(format!("GGUF {key}"), "an integer", format!("{other:?}")))
            }
        }
    }

    /// A truth value, if the key is there.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => {
                Err(Error::expected(format!("GGUF {key}"), "true or false", format!("{other:?}")))
            }
        }
    }

    /// A number, if the key is there.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Float(x)) => Ok(Some(*x)),
            Some(Value::Integer(n)) => Ok(Some(*n as f64)),
            Some(other) => {
                Err(Error::expected(format!("GGUF {key}"), "a number", format!("{other:?}")))
            }
        }
    }
}

struct Reader<'a> {
    blob: &'a Blob,
    at: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl Reader<'_> {
    /// The next `n` ≤ `WINDOW` bytes.
    fn take(&mut self, n: usize) -> Result<&[u8]> {
        let left = self.blob.len().saturating_sub(self.at);
        if n as u64 > left {
            return Err(Error::new(format!(
                "the header ends at byte {}, {n} more were expected",
                self.blob.len()
            ))
            .with_hint("the file is truncated or damaged: fetch it again"));
        }
        let inside = self.at >= self.window_start
            && self.at + n as u64 <= self.window_start + self.window.len() as u64;
        if !inside {
            let size = (WINDOW.max(n) as u64).min(left);
            self.window = self.blob.range(self.at, size)?;
            self.window_start = self.at;
        }
        let start = (self.at - self.window_start) as usize;
        self.at += n as u64;
        Ok(&self.window[start..start + n])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String> {
        let len = self.u64()?;
        let left = self.blob.len().saturating_sub(self.at);
        if len > left {
            return Err(Error::new(format!("a text claims {len} bytes, the file has {left} left")));
        }
        let at = self.at;
        let bytes = self.take(len as usize)?.to_vec();
        String::from_utf8(bytes).map_err(|source| {
            Error::new(format!("text at byte {at} is not UTF-8")).with_source(source)
        })
    }

    fn value(&mut self, kind: u32) -> Result<Value> {
        Ok(match kind {
            6 => Value::Float(f64::from(f32::from_le_bytes(self.array()?))),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            7 => Value::Bool(self.array::<1>()?[0] != 0),
            8 => Value::Text(self.text()?),
            9 => self.values()?,
            _ => Value::Integer(self.integer(kind)?),
        })
    }

    fn integer(&mut self, kind: u32) -> Result<i128> {
        Ok(match kind {
            0 => i128::from(self.array::<1>()?[0]),
            1 => i128::from(i8::from_le_bytes(self.array()?)),
            2 => i128::from(u16::from_le_bytes(self.array()?)),
            3 => i128::from(i16::from_le_bytes(self.array()?)),
            4 => i128::from(u32::from_le_bytes(self.array()?)),
            5 => i128::from(i32::from_le_bytes(self.array()?)),
            10 => i128::from(u64::from_le_bytes(self.array()?)),
            11 => i128::from(i64::from_le_bytes(self.array()?)),
            other => return Err(Error::expected("metadata type", "a number from 0 to 12", other)),
        })
    }

    fn values(&mut self) -> Result<Value> {
        let kind = self.u32()?;
        let len = self.u64()?;
        let smallest = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            other => {
                return Err(Error::expected("type of array items", "numbers or texts", other));
            }
        };
        let left = self.blob.len().saturating_sub(self.at);
        if len.checked_mul(smallest).is_none_or(|bytes| bytes > left) {
            return Err(Error::new(format!(
                "an array claims {len} items, the file has {left} bytes left"
            )));
        }
        if kind == 8 {
            return (0..len).map(|_| self.text()).collect::<Result<_>>().map(Value::Texts);
        }
        (0..len)
            .map(|_| {
                Ok(match self.value(kind)? {
                    Value::Integer(n) => n as f64,
                    Value::Float(x) => x,
                    Value::Bool(flag) => f64::from(u8::from(flag)),
                    _ => f64::NAN,
                })
            })
            .collect::<Result<_>>()
            .map(Value::Numbers)
    }

    fn header(&mut self) -> Result<Header> {
        if self.blob.len() < 24 || self.take(4)? != b"GGUF" {
            return Err(Error::expected("file", "a GGUF file", "something else"));
        }
        let version = self.u32()?;
        if !matches!(version, 2 | 3) {
            return Err(Error::expected("GGUF version", "2 or 3", version));
        }
        let (n_tensors, n_entries) = (self.u64()?, self.u64()?);
        if n_tensors > MAX_TENSORS || n_entries > MAX_ENTRIES {
            return Err(Error::new(format!(
                "claims {n_tensors} tensors and {n_entries} metadata entries"
            )));
        }
        let mut metadata = BTreeMap::new();
        for _ in 0..n_entries {
            let key = self.text()?;
            let kind = self.u32()?;
            let value =
                self.value(kind).map_err(|error| error.within(format!("metadata {key}")))?;
            metadata.insert(key, value);
        }
        let mut listed = Vec::new();
        for _ in 0..n_tensors {
            listed.push(self.tensor()?);
        }
        self.place(metadata, listed)
    }

    fn tensor(&mut self) -> Result<(String, u32, Vec<u64>, u64)> {
        let name = self.text()?;
        let n = self.u32()?;
        if n > MAX_DIMENSIONS {
            return Err(Error::expected(format!("dimensions of {name}"), "at most 4", n));
        }
        let mut shape = (0..n).map(|_| self.u64()).collect::<Result<Vec<_>>>()?;
        shape.reverse();
        Ok((name, self.u32()?, shape, self.u64()?))
    }

    /// Gives the tensors their place behind the header; unknown types are listed all at once.
    fn place(
        &self,
        metadata: BTreeMap<String, Value>,
        listed: Vec<(String, u32, Vec<u64>, u64)>,
    ) -> Result<Header> {
        let alignment = match metadata.get("general.alignment") {
            None => 32,
            Some(Value::Integer(n)) if *n > 0 && *n <= 1 << 20 => *n as u64,
            Some(other) => {
                return Err(Error::expected(
                    "general.alignment",
                    "a small positive integer",
                    format!("{other:?}"),
                ));
            }
        };
        let data = self.at.div_ceil(alignment) * alignment;
        let unknown: Vec<String> = listed
            .iter()
            .filter(|(_, kind, ..)| BlockType::from_number(*kind).is_none())
            .map(|(name, kind, ..)| format!("{name} ({})", type_name(*kind)))
            .collect();
        if !unknown.is_empty() {
            return Err(Error::unsupported(
                format!("{} tensors", unknown.len()),
                "types that are supported",
                unknown.join(", "),
            )
            .with_hint(
                "supported are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K",
            ));
        }
        let mut tensors = BTreeMap::new();
        for (name, kind, shape, offset) in listed {
            let Some(kind) = BlockType::from_number(kind) else { continue };
            let bad = |what: String| Error::new(format!("tensor {name}: {what}"));
            let shape = crate::weights::checked_shape(&shape)
                .ok_or_else(|| bad(format!("shape {shape:?}")))?;
            let elements = shape.iter().product::<usize>();
            let block = kind.numbers();
            let row = shape.last().copied().unwrap_or(1);
            if row % block != 0 {
                return Err(bad(format!("rows of {row} are no multiple of the block of {block}")));
            }
            let bytes = (elements / block) as u64 * kind.bytes() as u64;
            let start = data.checked_add(offset);
            let fits =
                start.and_then(|s| s.checked_add(bytes)).is_some_and(|e| e <= self.blob.len());
            let (Some(offset), true) = (start, fits) else {
                return Err(bad(format!(
                    "{bytes} bytes at {offset} reach past the end of the file"
                ))
                .with_hint("the file is truncated or damaged: fetch it again"));
            };
            tensors.insert(name, GgufTensor { kind, shape, offset, bytes });
        }
        Ok(Header { metadata, tensors })
    }
}

fn type_name(kind: u32) -> String {
    match kind {
        9 => "Q8_1".to_owned(),
        15 => "Q8_K".to_owned(),
        16 => "IQ2_XXS".to_owned(),
        17 => "IQ2_XS".to_owned(),
        18 => "IQ3_XXS".to_owned(),
        19 => "IQ1_S".to_owned(),
        20 => "IQ4_NL".to_owned(),
        21 => "IQ3_S".to_owned(),
        22 => "IQ2_S".to_owned(),
        23 => "IQ4_XS".to_owned(),
        29 => "IQ1_M".to_owned(),
        39 => "MXFP4".to_owned(),
        other => format!("type {other}"),
    }
}
