//! The CPU executor: packed weights, plain slices, ragged batches without padding.
//!
//! Guarantee: row invariance. What it says about a sequence is bitwise the same alone, in any batch, at any
//! thread count and after sharing a prefix.

mod forward;
mod network;
mod ragged;

use std::sync::Arc;

use network::CpuNetwork;

use super::{Executor, Facts, Forward, Isa, Precision, Storage};
use crate::{Error, Result, kernels::MAX_HEAD_DIM, stack::Network};

/// Runs networks on this machine's processor.
#[derive(Clone, Debug)]
pub struct Cpu {
    isa: Isa,
    precision: Precision,
    pool: Option<Arc<rayon::ThreadPool>>,
    every_row: bool,
    one_by_one: bool,
}

impl Default for Cpu {
    fn default() -> Self {
        let (isa, precision) = (Isa::best(), Precision::F32);
        Self { isa, precision, pool: None, every_row: false, one_by_one: false }
    }
}

impl Cpu {
    /// The machine's best instructions and the current thread pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same on chosen instructions.
    #[must_use]
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.isa = isa;
        self
    }

    /// The same with products in another precision. Every machine computes each of them; see
    /// [`Isa::dots_bf16`] and [`Isa::dots_int8`] for where that is fast.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// What attention and vocabulary heads are computed in: with int8, where rounding would cost most, the best
    /// that the machine multiplies fast.
    fn careful(&self) -> Precision {
        match self.precision {
            Precision::Int8 if self.isa.dots_bf16() => Precision::Bf16,
            Precision::Int8 => Precision::F32,
            precision => precision,
        }
    }

    /// The same on its own threads.
    #[must_use]
    pub fn with_pool(mut self, pool: Arc<rayon::ThreadPool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// The same without sharing between rows that enter the first layer alike, for tests: no bit may differ.
    #[cfg(feature = "bench")]
    #[must_use]
    pub fn every_row(mut self) -> Self {
        self.every_row = true;
        self
    }

    /// The same with one portion of a batch after another whatever the network, for tests: no bit may differ.
    #[cfg(feature = "bench")]
    #[must_use]
    pub fn one_by_one(mut self) -> Self {
        self.one_by_one = true;
        self
    }
}

/// Bytes of weights from which on `auto` keeps floating point: such networks have activations that a few columns
/// dominate, which eight bits a row cannot hold (Dettmers et al. 2022, from 6.7 billion parameters on), and packing
/// them anew takes long. In bf16 they stay in their file.
const LARGE: u64 = 4_000_000_000;

impl Precision {
    /// What a user asks for: a name, or `auto` for the fastest that this machine multiplies in hardware: int8 with
    /// AVX512_VNNI, AVX-VNNI or AMX; bf16 with AMX, or with AVX512_BF16 where AMD made it; else f32. `weights` is how
    /// many bytes the largest of the networks has: one of 4 GB and more, or of a size that nobody knows, is not rounded to
    /// eight bits.
    pub fn chosen(name: &str, weights: Option<u64>) -> Result<Self> {
        let isa = Isa::best();
        match name {
            "auto" if isa.dots_int8() && weights.is_some_and(|bytes| bytes < LARGE) => {
                Ok(Self::Int8)
            }
            "auto" if isa.prefers_bf16() => Ok(Self::Bf16),
            "auto" => Ok(Self::F32),
            name => name.parse().map_err(|_| {
                Error::expected("precision", "auto, f32, bf16 or int8", format!("{name:?}"))
            }),
        }
    }
}

impl Executor for Cpu {
    fn facts(&self) -> Facts {
        Facts {
            name: format!("cpu {}", self.isa.name()),
            precision: self.precision,
            row_invariant: true,
        }
    }

    fn load(&self, network: Network, storage: Storage) -> Result<Box<dyn Forward>> {
        let heads = network.stack().blocks.iter().map(|block| block.attention.head_dim);
        if let Some(wide) = heads.max().filter(|&wide| wide > MAX_HEAD_DIM) {
            let expected = format!("at most {MAX_HEAD_DIM} components on the CPU");
            return Err(Error::expected("attention head", expected, wide));
        }
        Ok(Box::new(CpuNetwork::pack(self.clone(), network, storage)?))
    }
}
