//! The seam between networks and machines: two traits, and what an implementation promises.

use std::{fmt, str::FromStr};

use super::{Past, RowAnswer, RowQuestion, Sequence};
use crate::{Error, Result, stack::Network};

/// How weights are held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// 32-bit floats.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit integers with one scale per output row (approximate).
    Int8,
    /// As the file stores them, in its mapped pages: a part is widened when it is multiplied, to the numbers that
    /// `F32` holds. What lies in no mapped file is held as `F32`.
    File,
}

impl Storage {
    /// Bytes per weight; of `File` as many as without one.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::File => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Int8 => 1,
        }
    }

    /// The usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::File => "file",
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the products of a network are computed in. Norms, softmax and the residual stream are f32 in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit floats throughout: what published numbers are made with.
    #[default]
    F32,
    /// Products of bfloat16, summed in f32.
    Bf16,
    /// Products of 8-bit integers, summed exactly: weights with one scale per output, activations with one per
    /// row. Attention and vocabulary heads take bf16 where the machine multiplies it, f32 elsewhere.
    Int8,
}

impl Precision {
    /// `f32`, `bf16` or `int8`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Numbers in a word of 32 bits.
    pub(crate) fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
            Self::Int8 => 4,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            "int8" => Ok(Self::Int8),
            other => Err(Error::expected("precision", "f32, bf16 or int8", other)),
        }
    }
}

/// What an executor promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where it runs, such as `cpu avx2`.
    pub name: String,
    /// What products are computed in.
    pub precision: Precision,
    /// Whether what it says about a sequence is bitwise the same alone, in any batch, at any thread count and
    /// after sharing a prefix. Exact savings and caches rest on this.
    pub row_invariant: bool,
}

/// Something that runs networks.
pub trait Executor: fmt::Debug + Send + Sync {
    /// What it promises.
    fn facts(&self) -> Facts;

    /// Takes the weights of a network over, in the form this executor multiplies. `storage` is how the caller
    /// wants them held; an executor that multiplies in another type may hold that instead.
    fn load(&self, network: Network, storage: Storage) -> Result<Box<dyn Forward>>;
}

/// A network whose weights an executor holds. Callers go through [`super::Runner`], which has checked every
/// token, position, row and width, so that implementations need not.
pub trait Forward: fmt::Debug + Send + Sync {
    /// Final hidden states of the rows each sequence keeps, `[rows, width]`, sequence after sequence.
    fn hidden(&self, batch: &[Sequence<'_>]) -> Result<Vec<f32>>;

    /// As `hidden`, approximately, and what a later pass may go on from. Positions whose token is as it was in the
    /// past and whose rows nobody wants are not run: their keys and values are those of the past. Nothing from an
    /// executor that cannot.
    fn hidden_after(
        &self,
        _batch: &[Sequence<'_>],
        _pasts: &[Option<&Past>],
    ) -> Option<Result<(Vec<f32>, Vec<Past>)>> {
        None
    }

    /// Whether `hidden_after` has an answer.
    fn reuses(&self) -> bool {
        false
    }

    /// Numbers in a hidden row.
    fn width(&self) -> usize;

    /// What the network's reader makes of hidden rows: `[rows, outputs]`.
    fn logits(&self, rows: &[f32]) -> Result<Vec<f32>>;

    /// Bytes of weights held.
    fn bytes(&self) -> usize;

    /// Answers questions about hidden rows through a vocabulary head.
    fn ask(&self, rows: &[f32], questions: &[RowQuestion<'_>]) -> Result<Vec<RowAnswer>> {
        let logits = self.logits(rows)?;
        let outputs = logits.len() / (rows.len() / self.width().max(1)).max(1);
        Ok(questions
            .iter()
            .map(|q| RowAnswer::from_logits(logits[q.row * outputs..][..outputs].to_vec(), q))
            .collect())
    }

    /// Negative log-likelihoods in nats of every token but the first, given those before it, of a causal
    /// network with a vocabulary head; nothing for sequences of one token or none.
    fn nll(&self, batch: &[&[u32]]) -> Result<Vec<Vec<f64>>> {
        let score = |tokens: &&[u32]| {
            let Some((_, inputs)) = tokens.split_last() else { return Ok(Vec::new()) };
            let hidden = self.hidden(&[Sequence::all(inputs)])?;
            let questions: Vec<RowQuestion<'_>> = (0..inputs.len())
                .map(|row| RowQuestion {
                    row,
                    normaliser: true,
                    tokens: &tokens[row + 1..=row + 1],
                    ..RowQuestion::default()
                })
                .collect();
            let nll = |a: &RowAnswer| {
                a.normaliser.unwrap_or(f64::NAN) - a.logits.first().map_or(f64::NAN, |&x| x.into())
            };
            Ok(self.ask(&hidden, &questions)?.iter().map(nll).collect())
        };
        batch.iter().map(score).collect()
    }
}
