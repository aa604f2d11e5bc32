//! From token ids (and a diffusion time) to vectors.

use std::sync::Arc;

use half::{bf16, f16};

use super::{Linear, Norm, Storage};
use crate::kernels::Aligned;

/// Rows of vectors looked up by index, held as f32, f16 or bf16 (int8 is not for tables: it is held as f16).
#[derive(Clone, Debug)]
pub enum Table {
    /// A table of its own.
    Rows {
        /// How numbers are held.
        storage: Storage,
        /// Numbers per row.
        width: usize,
        /// How many rows.
        rows: usize,
        /// Row-major numbers.
        values: Aligned,
    },
    /// The packed weights of a tied head, read row by row: saves a second copy in memory.
    Tied(Arc<Linear>),
}

impl Table {
    /// Builds a table of `rows × width` numbers that `fill(row, numbers)` delivers one row at a time.
    pub fn stream<E>(
        rows: usize,
        width: usize,
        storage: Storage,
        mut fill: impl FnMut(usize, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let storage = if storage == Storage::Int8 { Storage::F16 } else { storage };
        let mut values = Aligned::zeroed(rows * width * storage.bytes());
        let mut wide = vec![0.0f32; width];
        for row in 0..rows {
            let at = row * width..(row + 1) * width;
            if storage == Storage::F32 {
                fill(row, &mut values.as_f32_mut()[at])?;
                continue;
            }
            fill(row, &mut wide)?;
            let narrow = |x: &f32| match storage {
                Storage::Bf16 => bf16::from_f32(*x).to_bits(),
                _ => f16::from_f32(*x).to_bits(),
            };
            values.as_u16_mut()[at].iter_mut().zip(&wide).for_each(|(to, x)| *to = narrow(x));
        }
        Ok(Self::Rows { storage, width, rows, values })
    }

    /// Numbers per row.
    pub fn width(&self) -> usize {
        match self {
            Self::Rows { width, .. } => *width,
            Self::Tied(linear) => linear.inputs(),
        }
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Rows { rows, .. } => *rows,
            Self::Tied(linear) => linear.outputs(),
        }
    }

    /// Row `index`, widened into `to`.
    pub fn read(&self, index: usize, to: &mut [f32]) {
        match self {
            Self::Tied(linear) => linear.unpack_row(index, to),
            Self::Rows { storage, width, values, .. } => {
                let at = index * width..(index + 1) * width;
                match storage {
                    Storage::F32 => to.copy_from_slice(&values.as_f32()[at]),
                    Storage::Bf16 => {
                        let from = &values.as_u16()[at];
                        to.iter_mut()
                            .zip(from)
                            .for_each(|(to, &x)| *to = bf16::from_bits(x).to_f32());
                    }
                    Storage::F16 | Storage::Int8 => {
                        let from = &values.as_u16()[at];
                        to.iter_mut()
                            .zip(from)
                            .for_each(|(to, &x)| *to = f16::from_bits(x).to_f32());
                    }
                }
            }
        }
    }

    /// Bytes held; a tied table holds none of its own.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Rows { values, .. } => values.bytes(),
            Self::Tied(_) => 0,
        }
    }
}

/// Which row of the position table a token reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionRule {
    /// Row `first + i` for the `i`-th token.
    From(usize),
    /// RoBERTa: the padding id reads row `pad`; other tokens count up from `pad + 1`.
    CountNonPad(u32),
}

/// Token ids to the residual stream: `norm(tokens[id] + positions[…] + constant)`.
#[derive(Clone, Debug)]
pub struct Embed {
    /// One row per token id.
    pub tokens: Table,
    /// Learned positions and which row a token reads.
    pub positions: Option<(Table, PositionRule)>,
    /// Added to every token: BERT's row for token type 0.
    pub constant: Option<Vec<f32>>,
    /// Applied to the sum.
    pub norm: Option<Norm>,
}

impl Embed {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.tokens.bytes()
            + self.positions.as_ref().map_or(0, |(table, _)| table.bytes())
            + self.constant.as_ref().map_or(0, |c| 4 * c.len())
            + self.norm.as_ref().map_or(0, Norm::bytes)
    }
}

/// `SiLU(second(SiLU(first(sinusoid(σ)))))`: mdlm's conditioning vector. The sinusoid is `[cos | sin]` of
/// `σ · exp(−ln(10000) · i / half)`.
#[derive(Clone, Debug)]
pub struct Conditioning {
    /// `[conditioning width, sinusoid width]`, with bias.
    pub first: Linear,
    /// `[conditioning width, conditioning width]`, with bias.
    pub second: Linear,
}

impl Conditioning {
    /// The conditioning vector at noise level σ, in plain scalar arithmetic: a few thousand operations.
    pub fn vector(&self, sigma: f32) -> Vec<f32> {
        let half = self.first.inputs() / 2;
        let angle = |i: usize| sigma * (-(10000f32.ln()) * i as f32 / half as f32).exp();
        let mut wave: Vec<f32> = (0..half).map(|i| f64::from(angle(i)).cos() as f32).collect();
        wave.extend((0..half).map(|i| f64::from(angle(i)).sin() as f32));
        wave.resize(self.first.inputs(), 0.0);
        silu(&apply(&self.second, &silu(&apply(&self.first, &wave))))
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.first.bytes() + self.second.bytes()
    }
}

/// `W x + b` of one vector with f64 sums, for work that is done once.
pub(crate) fn apply(linear: &Linear, x: &[f32]) -> Vec<f32> {
    let mut row = vec![0.0; linear.inputs()];
    let product = |r: usize| {
        linear.unpack_row(r, &mut row);
        let sum: f64 = row.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
        (sum + linear.bias().map_or(0.0, |b| f64::from(b[r]))) as f32
    };
    (0..linear.outputs()).map(product).collect()
}

fn silu(x: &[f32]) -> Vec<f32> {
    x.iter().map(|x| x / (1.0 + (-x).exp())).collect()
}
