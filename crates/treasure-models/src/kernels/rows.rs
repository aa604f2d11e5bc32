//! How rows of activations come to a product, and how the rows of one product lie for the next.

use super::{
    amx,
    tile::{DEPTH, STRIDE},
};
use crate::exec::Precision;

/// Rows of activations to multiply.
pub(crate) trait Rows: Sync {
    /// Writes a row.
    fn load(&self, row: usize, to: &mut [f32]);

    /// A row where it lies, if it is taken as it is.
    fn lying(&self, _row: usize) -> Option<&[f32]> {
        None
    }

    /// All rows, if they lie as the kernel reads them.
    fn packed(&self) -> Option<&Packed<'_>> {
        None
    }
}

impl<F: Fn(usize, &mut [f32]) + Sync> Rows for F {
    fn load(&self, row: usize, to: &mut [f32]) {
        self(row, to);
    }
}

/// Rows of a matrix as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<'a> {
    /// Row-major.
    pub values: &'a [f32],
    /// Numbers per row.
    pub width: usize,
}

impl Rows for Plain<'_> {
    fn load(&self, row: usize, to: &mut [f32]) {
        to.copy_from_slice(&self.values[row * self.width..][..self.width]);
    }

    fn lying(&self, row: usize) -> Option<&[f32]> {
        Some(&self.values[row * self.width..][..self.width])
    }
}

/// Rows as the kernel reads them, `[block of words][row][STRIDE]`: what one product wrote for the next. Not for
/// bytes, whose scale is known only when a row is whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    pub(super) values: &'a [f32],
    pub(super) rows: usize,
}

impl<'a> Packed<'a> {
    /// Words that so many rows take.
    pub fn words(rows: usize, width: usize, precision: Precision) -> usize {
        // A kernel of tiles reads behind the last row, and never looks at what is there.
        let behind = if precision == Precision::F32 { 0 } else { amx::ROWS - 1 };
        (width.div_ceil(DEPTH * precision.per_word()).max(1) * rows + behind) * STRIDE
    }

    /// What [`super::project_activated`] packed.
    pub fn new(values: &'a [f32], rows: usize) -> Self {
        Self { values, rows }
    }

    /// Where the part of a row from `column` on lies, as row and column of a matrix with rows of `STRIDE`.
    pub(super) fn spot(rows: usize, row: usize, column: usize) -> (usize, usize) {
        (column / DEPTH * rows + row, column % DEPTH)
    }
}

impl Rows for Packed<'_> {
    /// Words as they are: only [`Packed::packed`] is read.
    fn load(&self, row: usize, to: &mut [f32]) {
        for (block, part) in to.chunks_mut(DEPTH).enumerate() {
            part.copy_from_slice(&self.values[(block * self.rows + row) * STRIDE..][..part.len()]);
        }
    }

    fn packed(&self) -> Option<&Packed<'_>> {
        Some(self)
    }
}

/// Where [`super::project_activated`] puts its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// One after another.
    Rows,
    /// As [`Packed`].
    Packed,
}
