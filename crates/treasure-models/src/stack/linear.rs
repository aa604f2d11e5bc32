//! A matrix of weights, packed once at load and never changed: `y = W x + b`.
//!
//! Rows of `W` are stored in panels of [`PANEL`] outputs, each `[in][PANEL]`, as f32, f16, bf16 or int8;
//! kernels widen one panel at a time. Packing streams: at no time does a second copy of the matrix exist.

use half::{bf16, f16};

use crate::kernels::Aligned;

/// Outputs per panel.
pub const PANEL: usize = 32;

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
}

impl Storage {
    /// Bytes per weight.
    pub fn bytes(self) -> usize {
        match self {
            Storage::F32 => 4,
            Storage::F16 | Storage::Bf16 => 2,
            Storage::Int8 => 1,
        }
    }
}

/// How a matrix lies in the memory it is packed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[out, in]`, as `nn.Linear` stores it.
    OutIn,
    /// `[in, out]`, as GPT-2's `Conv1D` stores it.
    InOut,
}

/// Packed weights `[out, in]` and an optional bias `[out]`.
#[derive(Clone, Debug)]
pub struct Linear {
    outputs: usize,
    inputs: usize,
    storage: Storage,
    panels: Aligned,
    scales: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Linear {
    /// Packs `outputs × inputs` weights that `fill(first_row, rows)` delivers in f32, up to [`PANEL`] rows
    /// of `inputs` numbers at a time, in increasing order. An error of `fill` ends the packing.
    pub fn stream<E>(
        outputs: usize,
        inputs: usize,
        storage: Storage,
        mut fill: impl FnMut(usize, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let panels = outputs.div_ceil(PANEL);
        let mut packed = Aligned::zeroed(panels * PANEL * inputs * storage.bytes());
        let mut scales =
            if storage == Storage::Int8 { vec![0.0; panels * PANEL] } else { Vec::new() };
        let mut rows = vec![0.0f32; PANEL.min(outputs) * inputs];
        for panel in 0..panels {
            let first = panel * PANEL;
            let count = PANEL.min(outputs - first);
            fill(first, &mut rows[..count * inputs])?;
            let base = panel * PANEL * inputs;
            for (lane, row) in rows[..count * inputs].chunks_exact(inputs.max(1)).enumerate() {
                let slots = (0..inputs).map(|k| base + k * PANEL + lane);
                match storage {
                    Storage::F32 => {
                        let to = packed.as_f32_mut();
                        slots.zip(row).for_each(|(slot, &w)| to[slot] = w);
                    }
                    Storage::F16 => {
                        let to = packed.as_u16_mut();
                        slots.zip(row).for_each(|(slot, &w)| to[slot] = f16::from_f32(w).to_bits());
                    }
                    Storage::Bf16 => {
                        let to = packed.as_u16_mut();
                        slots
                            .zip(row)
                            .for_each(|(slot, &w)| to[slot] = bf16::from_f32(w).to_bits());
                    }
                    Storage::Int8 => {
                        let largest = row.iter().fold(0.0f32, |a, &w| a.max(w.abs()));
                        let scale = largest / 127.0;
                        scales[first + lane] = scale;
                        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
                        let to = packed.as_i8_mut();
                        slots
                            .zip(row)
                            .for_each(|(slot, &w)| to[slot] = (w * inverse).round() as i8);
                    }
                }
            }
        }
        Ok(Self { outputs, inputs, storage, panels: packed, scales, bias: None })
    }

    /// Packs a matrix that is in memory already.
    ///
    /// # Panics
    /// If `weights` does not hold `outputs × inputs` numbers.
    pub fn pack(
        weights: &[f32],
        outputs: usize,
        inputs: usize,
        layout: Layout,
        storage: Storage,
    ) -> Self {
        assert_eq!(weights.len(), outputs * inputs, "a matrix of {outputs} × {inputs} weights");
        let packed = Self::stream(outputs, inputs, storage, |first, rows| {
            for (r, row) in rows.chunks_exact_mut(inputs.max(1)).enumerate() {
                match layout {
                    Layout::OutIn => {
                        row.copy_from_slice(&weights[(first + r) * inputs..][..inputs])
                    }
                    Layout::InOut => {
                        row.iter_mut()
                            .enumerate()
                            .for_each(|(k, w)| *w = weights[k * outputs + first + r]);
                    }
                }
            }
            Ok::<(), std::convert::Infallible>(())
        });
        match packed {
            Ok(linear) => linear,
            Err(never) => match never {},
        }
    }

    /// Adds a bias.
    ///
    /// # Panics
    /// If it does not have one number per output.
    pub fn with_bias(mut self, bias: Vec<f32>) -> Self {
        assert_eq!(bias.len(), self.outputs, "one bias per output");
        self.bias = Some(bias);
        self
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// How the weights are held.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// The bias, if any.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// The packed weights, `[panel][in][PANEL]`.
    pub(crate) fn panels(&self) -> &Aligned {
        &self.panels
    }

    /// One scale per output and padding output for int8 weights; empty otherwise.
    pub(crate) fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.panels.bytes() + 4 * (self.scales.len() + self.bias.as_ref().map_or(0, Vec::len))
    }

    /// Row `output` of the matrix, widened into `row` (`inputs` numbers).
    pub fn unpack_row(&self, output: usize, row: &mut [f32]) {
        let base = output / PANEL * PANEL * self.inputs + output % PANEL;
        let slots = (0..self.inputs).map(|k| base + k * PANEL);
        match self.storage {
            Storage::F32 => {
                let from = self.panels.as_f32();
                slots.zip(row).for_each(|(slot, w)| *w = from[slot]);
            }
            Storage::F16 => {
                let from = self.panels.as_u16();
                slots.zip(row).for_each(|(slot, w)| *w = f16::from_bits(from[slot]).to_f32());
            }
            Storage::Bf16 => {
                let from = self.panels.as_u16();
                slots.zip(row).for_each(|(slot, w)| *w = bf16::from_bits(from[slot]).to_f32());
            }
            Storage::Int8 => {
                let (from, scale) = (self.panels.as_i8(), self.scales[output]);
                slots.zip(row).for_each(|(slot, w)| *w = f32::from(from[slot]) * scale);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(outputs: usize, inputs: usize) -> Vec<f32> {
        (0..outputs * inputs).map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0).collect()
    }

    #[test]
    fn unpacked_rows_equal_the_packed_matrix_in_every_float_storage() {
        let (outputs, inputs) = (37, 5);
        let matrix = weights(outputs, inputs); // multiples of 1/64 below 1: exact in every float type
        for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
            let linear = Linear::pack(&matrix, outputs, inputs, Layout::OutIn, storage);
            let mut row = vec![0.0; inputs];
            for r in 0..outputs {
                linear.unpack_row(r, &mut row);
                assert_eq!(row, matrix[r * inputs..][..inputs], "{storage:?} row {r}");
            }
        }
    }

    #[test]
    fn int8_weights_are_off_by_at_most_half_a_step() {
        let (outputs, inputs) = (33, 40);
        let matrix = weights(outputs, inputs);
        let linear = Linear::pack(&matrix, outputs, inputs, Layout::OutIn, Storage::Int8);
        let mut row = vec![0.0; inputs];
        for r in 0..outputs {
            linear.unpack_row(r, &mut row);
            let largest = matrix[r * inputs..][..inputs].iter().fold(0.0f32, |a, w| a.max(w.abs()));
            for (a, b) in row.iter().zip(&matrix[r * inputs..]) {
                assert!((a - b).abs() <= largest / 127.0 * 0.5001);
            }
        }
    }

    #[test]
    fn conv1d_weights_pack_like_their_transpose() {
        let (outputs, inputs) = (34, 6);
        let matrix = weights(outputs, inputs);
        let transposed: Vec<f32> =
            (0..inputs * outputs).map(|i| matrix[i % outputs * inputs + i / outputs]).collect();
        let a = Linear::pack(&matrix, outputs, inputs, Layout::OutIn, Storage::F32);
        let b = Linear::pack(&transposed, outputs, inputs, Layout::InOut, Storage::F32);
        assert_eq!(a.panels().as_f32(), b.panels().as_f32());
    }
}
