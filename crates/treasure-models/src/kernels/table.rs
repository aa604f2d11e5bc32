//! A lookup table as the CPU holds it: rows of f32, f16 or bf16.

use half::{
    bf16, f16,
    slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _},
};

use super::{Aligned, Isa, linear::check_range, widen::widen_blocks};
use crate::{Result, exec::Storage, stack::Matrix, weights::MappedRows};

/// Rows that are looked up by index. Int8 is not for tables: they are held as f16.
#[derive(Debug)]
pub(crate) struct Table {
    storage: Storage,
    width: usize,
    values: Aligned,
    /// Where the rows lie, if they were not taken over.
    mapped: Option<MappedRows>,
}

impl Table {
    /// As [`Self::pack`], but rows of a mapped file stay there, if `from_file` and they are wanted as f32 or bf16.
    pub fn hold(matrix: Matrix, storage: Storage, from_file: bool) -> Result<Self> {
        let fits = from_file && matches!(storage, Storage::F32 | Storage::Bf16);
        let Some(mapped) = matrix.mapped().filter(|_| fits).cloned() else {
            return Self::pack(matrix, storage);
        };
        let (width, values) = (matrix.inputs(), Aligned::default());
        Ok(Self { storage, width, values, mapped: Some(mapped) })
    }

    /// Takes a table over, a row at a time.
    pub fn pack(mut matrix: Matrix, storage: Storage) -> Result<Self> {
        let storage = if storage == Storage::Int8 { Storage::F16 } else { storage };
        let (rows, width) = (matrix.outputs(), matrix.inputs());
        let mut values = Aligned::zeroed(rows * width * storage.bytes());
        let mut wide = vec![0.0f32; width];
        for row in 0..rows {
            let at = row * width..(row + 1) * width;
            if storage == Storage::F32 {
                matrix.read(row, &mut values.as_f32_mut()[at])?;
                continue;
            }
            matrix.read(row, &mut wide)?;
            check_range(&matrix, storage, &wide)?;
            let words = &mut values.as_u16_mut()[at];
            match storage {
                Storage::Bf16 => words.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(&wide),
                _ => words.reinterpret_cast_mut::<f16>().convert_from_f32_slice(&wide),
            }
        }
        Ok(Self { storage, width, values, mapped: None })
    }

    /// Row `index`, widened into `to`.
    pub fn read(&self, index: usize, to: &mut [f32]) {
        if let Some(rows) = &self.mapped {
            widen_blocks(Isa::best(), rows.kind(), rows.row(index), to);
            if self.storage == Storage::Bf16 {
                to.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32());
            }
            return;
        }
        let at = index * self.width..(index + 1) * self.width;
        match self.storage {
            Storage::F32 | Storage::File => to.copy_from_slice(&self.values.as_f32()[at]),
            Storage::Bf16 => {
                self.values.as_u16()[at].reinterpret_cast::<bf16>().convert_to_f32_slice(to);
            }
            Storage::F16 | Storage::Int8 => {
                self.values.as_u16()[at].reinterpret_cast::<f16>().convert_to_f32_slice(to);
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.values.bytes() + self.mapped.as_ref().map_or(0, MappedRows::bytes)
    }
}
