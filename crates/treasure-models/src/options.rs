//! How to load a model: types, the mask token, a tokenizer, an architecture, a revision.

use std::{fmt, str::FromStr};

use crate::{
    Error, Family, Result,
    exec::{Cpu, Precision, Storage},
    weights::{Stored, Weights},
};

/// How weights are held in memory where products are f32; other precisions hold what they multiply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// As the file stores them: f16 and bf16 stay, and from 4 GB on they stay in the file, as GGUF blocks
    /// always do (`File`); everything else becomes f32. Small files (below 64 MB) become f32 too, which costs little memory and spares the widening of every product.
    #[default]
    Auto,
    /// 32-bit floats.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit integers with one scale per output; embeddings in half precision. Results differ slightly.
    Int8,
    /// Where they lie in the mapped file, widened (or for bf16 products narrowed) when they are multiplied: the
    /// numbers of packed weights, in the memory of the file. On Linux; elsewhere packed. The file must be neither
    /// changed nor shortened while the model is in use: that would change results or end the process.
    File,
}

impl Dtype {
    pub(crate) fn storage(self, weights: &Weights) -> Storage {
        match self {
            Self::F32 => Storage::F32,
            Self::F16 => Storage::F16,
            Self::Bf16 => Storage::Bf16,
            Self::Int8 => Storage::Int8,
            Self::File => Storage::File,
            Self::Auto => kept_as(weights.main_type(), weights.bytes()),
        }
    }
}

/// What `auto` makes of a file of this size that mostly stores this type.
fn kept_as(stored: Option<Stored>, bytes: u64) -> Storage {
    const SMALL: u64 = 64_000_000;
    // Packing so much takes longer than anybody wants to wait.
    const LARGE: u64 = 4_000_000_000;
    match stored {
        Some(Stored::Blocks(_)) if bytes >= SMALL => Storage::File,
        Some(Stored::F16 | Stored::Bf16) if bytes >= LARGE => Storage::File,
        Some(Stored::F16) if bytes >= SMALL => Storage::F16,
        Some(Stored::Bf16) if bytes >= SMALL => Storage::Bf16,
        _ => Storage::F32,
    }
}

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "f32" | "float32" => Ok(Self::F32),
            "f16" | "float16" => Ok(Self::F16),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            "int8" => Ok(Self::Int8),
            "file" => Ok(Self::File),
            other => Err(Error::expected("dtype", "auto, f32, f16, bf16, int8 or file", other)),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::File => "file",
        })
    }
}

/// What a caller may say about a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoadOptions {
    /// How weights are held.
    pub dtype: Dtype,
    /// What products are computed in, on the CPU.
    pub precision: Precision,
    /// The mask token, where the checkpoint does not say or says something else.
    pub mask_id: Option<u32>,
    /// Another tokenizer: a directory, a GGUF file or a hub id.
    pub tokenizer: Option<String>,
    /// Reads the files as this family, whatever `model_type` says.
    pub as_kind: Option<Family>,
    /// Pins a hub revision.
    pub revision: Option<String>,
}

impl LoadOptions {
    /// The executor that these options ask for.
    pub(crate) fn cpu(&self) -> Cpu {
        Cpu::new().with_precision(self.precision)
    }

    /// Refuses a type of weights that the precision leaves no use for.
    pub fn check(&self) -> Result<()> {
        match (self.dtype, self.precision) {
            // bf16 products may narrow what lies in the file on the way: the same bits as packed before.
            (_, Precision::F32) | (Dtype::Auto, _) | (Dtype::File, Precision::Bf16) => {
                return Ok(());
            }
            _ => {}
        }
        let what = format!("dtype with precision {}", self.precision);
        let hint =
            "leave the dtype out: bf16 and int8 products hold the weights that they multiply";
        Err(Error::expected(what, "auto", self.dtype).with_hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_keeps_half_precision_unless_the_file_is_small() {
        assert_eq!(kept_as(Some(Stored::F16), 64_000_000), Storage::F16);
        assert_eq!(kept_as(Some(Stored::Bf16), 64_000_000), Storage::Bf16);
        assert_eq!(kept_as(Some(Stored::F16), 63_999_999), Storage::F32);
        assert_eq!(kept_as(Some(Stored::F32), 64_000_000), Storage::F32);
        assert_eq!(kept_as(None, 0), Storage::F32);
    }

    #[test]
    fn auto_leaves_blocks_and_what_is_large_in_the_file() {
        let blocks = || Some(Stored::Blocks(crate::gguf::BlockType::Q4_K));
        assert_eq!(kept_as(blocks(), 64_000_000), Storage::File);
        assert_eq!(kept_as(blocks(), 63_999_999), Storage::F32);
        assert_eq!(kept_as(Some(Stored::Bf16), 4_000_000_000), Storage::File);
        assert_eq!(kept_as(Some(Stored::F32), 4_000_000_000), Storage::F32);
    }
}
