//! How to load a model: what `--dtype`, `--mask-id`, `--tokenizer`, `--as` and a revision say.

use std::{fmt, str::FromStr};

use crate::{
    Error, Family, Result,
    stack::Storage,
    weights::{Stored, Weights},
};

/// How weights are held in memory. Arithmetic is always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// As the file stores them: f16 and bf16 stay, everything else becomes f32.
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
}

impl Dtype {
    pub(crate) fn storage(self, weights: &Weights) -> Storage {
        match self {
            Self::F32 => Storage::F32,
            Self::F16 => Storage::F16,
            Self::Bf16 => Storage::Bf16,
            Self::Int8 => Storage::Int8,
            Self::Auto => match weights.main_type() {
                Some(Stored::F16) => Storage::F16,
                Some(Stored::Bf16) => Storage::Bf16,
                _ => Storage::F32,
            },
        }
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
            other => Err(Error::expected("--dtype", "auto, f32, f16, bf16 or int8", other)),
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
        })
    }
}

/// What a caller may say about a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// How weights are held.
    pub dtype: Dtype,
    /// The mask token, where the checkpoint does not say or says something else.
    pub mask_id: Option<u32>,
    /// Another tokenizer: a directory, a GGUF file or a hub id.
    pub tokenizer: Option<String>,
    /// Reads the files as this family, whatever `model_type` says.
    pub as_kind: Option<Family>,
    /// Pins a hub revision.
    pub revision: Option<String>,
}
