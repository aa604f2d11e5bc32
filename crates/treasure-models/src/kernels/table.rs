//! A lookup table as the CPU holds it: rows of f32, f16 or bf16.

use half::{
    bf16, f16,
    slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _},
};

use super::{Aligned, linear::check_range};
use crate::{Result, exec::Storage, stack::Matrix};

/// Rows that are looked up by index. Int8 is not for tables: they are held as f16.
#[derive(Debug)]
pub(crate) struct Table {
    storage: Storage,
    width: usize,
    values: Aligned,
}

impl Table {
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
        Ok(Self { storage, width, values })
    }

    /// Row `index`, widened into `to`.
    pub fn read(&self, index: usize, to: &mut [f32]) {
        let at = index * self.width..(index + 1) * self.width;
        match self.storage {
            Storage::F32 => to.copy_from_slice(&self.values.as_f32()[at]),
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
        self.values.bytes()
    }
}
