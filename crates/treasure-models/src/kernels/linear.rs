//! A matrix of weights as the kernels read it, packed once at load and never changed: `y = W x + b`.
//!
//! Rows of `W` are stored in panels of [`PANEL`] outputs, each `[word of inputs][PANEL]`. What is multiplied as f32
//! may be held as f32, f16, bf16 or int8, and kernels widen one panel at a time; what is multiplied as bf16 or
//! int8 is held so ([`super::words`]). Packing streams: at no time does a second copy of the matrix exist.

use bytemuck::cast_slice;
use half::{bf16, f16};

use super::{
    Aligned, Isa,
    columns::{prefetch, transpose},
    tile::DEPTH,
    widen::widen_blocks,
    words::{OFFSET, narrow, narrow_in_place, quantise},
};
use crate::{
    Error, Result,
    exec::{Precision, Storage},
    gguf::BlockType,
    stack::Matrix,
    weights::MappedRows,
};

/// Outputs per panel.
pub(crate) const PANEL: usize = 32;

/// Packed weights `[out, in]` and an optional bias `[out]`.
#[derive(Debug)]
pub(crate) struct Linear {
    outputs: usize,
    inputs: usize,
    precision: Precision,
    storage: Storage,
    panels: Aligned,
    scales: Vec<f32>,
    offsets: Vec<i32>,
    bias: Option<Vec<f32>>,
    /// Where the rows lie, if they were not packed.
    mapped: Option<MappedRows>,
}

impl Linear {
    /// Takes a matrix over as [`Self::pack`] does, but leaves rows that lie in a mapped file there, if
    /// `from_file`; what comes of a product is the same to the bit. Bytes are always packed: their scales are known only
    /// when a row has been seen.
    pub fn hold(
        mut matrix: Matrix,
        storage: Storage,
        precision: Precision,
        from_file: bool,
    ) -> Result<Self> {
        let (outputs, inputs) = (matrix.outputs(), matrix.inputs());
        let fits = match precision {
            Precision::F32 => storage == Storage::F32,
            Precision::Bf16 => inputs.is_multiple_of(2),
            Precision::Int8 => false,
        };
        let mapped = matrix.mapped().filter(|_| from_file && fits).cloned();
        let Some(mapped) = mapped else { return Self::pack(matrix, storage, precision) };
        let storage = if precision == Precision::Bf16 { Storage::Bf16 } else { storage };
        Ok(Self {
            outputs,
            inputs,
            precision,
            storage,
            panels: Aligned::default(),
            scales: Vec::new(),
            offsets: Vec::new(),
            bias: matrix.take_bias(),
            mapped: Some(mapped),
        })
    }

    /// Packs a matrix, up to [`PANEL`] rows at a time, to be multiplied in `precision`; how it is held then follows
    /// from that, except for f32.
    pub fn pack(mut matrix: Matrix, storage: Storage, precision: Precision) -> Result<Self> {
        let storage = match precision {
            Precision::F32 => storage,
            Precision::Bf16 => Storage::Bf16,
            Precision::Int8 => Storage::Int8,
        };
        let (outputs, inputs) = (matrix.outputs(), matrix.inputs());
        let (panels, per) = (outputs.div_ceil(PANEL), precision.per_word());
        let words = inputs.div_ceil(per);
        let mut packed = Aligned::zeroed(panels * PANEL * words * per * storage.bytes());
        let padded = panels * PANEL;
        let scales = vec![0.0; if storage == Storage::Int8 { padded } else { 0 }];
        let offsets = vec![0; if precision == Precision::Int8 { padded } else { 0 }];
        let mut rows = vec![0.0f32; PANEL.min(outputs) * inputs];
        let mut line = Aligned::zeroed(4 * words);
        let mut made = Self {
            outputs,
            inputs,
            precision,
            storage,
            panels: Aligned::default(),
            scales,
            offsets,
            bias: None,
            mapped: None,
        };
        for panel in 0..panels {
            let first = panel * PANEL;
            let count = PANEL.min(outputs - first);
            matrix.read(first, &mut rows[..count * inputs])?;
            check_range(&matrix, storage, &rows[..count * inputs])?;
            for (lane, row) in rows[..count * inputs].chunks_exact(inputs.max(1)).enumerate() {
                let slots = (0..words).map(|word| (panel * words + word) * PANEL + lane);
                match (precision, storage) {
                    (Precision::Bf16, _) => {
                        narrow(Isa::best(), row, &mut line.as_u16_mut()[..inputs]);
                        let to = packed.as_f32_mut();
                        slots.zip(line.as_f32()).for_each(|(slot, &word)| to[slot] = word);
                    }
                    (Precision::Int8, _) => {
                        made.scales[first + lane] =
                            quantise(Isa::best(), row, &mut line.as_u8_mut()[..inputs]);
                        let bytes = &mut line.as_i8_mut()[..inputs];
                        bytes.iter_mut().for_each(|w| *w = w.wrapping_sub(OFFSET as u8 as i8));
                        made.offsets[first + lane] =
                            OFFSET * bytes.iter().map(|&w| i32::from(w)).sum::<i32>();
                        let to = packed.as_f32_mut();
                        slots.zip(line.as_f32()).for_each(|(slot, &word)| to[slot] = word);
                    }
                    (Precision::F32, Storage::F32 | Storage::File) => {
                        let to = packed.as_f32_mut();
                        slots.zip(row).for_each(|(slot, &w)| to[slot] = w);
                    }
                    (Precision::F32, Storage::F16) => {
                        let to = packed.as_u16_mut();
                        slots.zip(row).for_each(|(slot, &w)| to[slot] = f16::from_f32(w).to_bits());
                    }
                    (Precision::F32, Storage::Bf16) => {
                        let to = packed.as_u16_mut();
                        slots
                            .zip(row)
                            .for_each(|(slot, &w)| to[slot] = bf16::from_f32(w).to_bits());
                    }
                    (Precision::F32, Storage::Int8) => {
                        let bytes = &mut line.as_i8_mut()[..inputs];
                        made.scales[first + lane] = to_int8(row, bytes);
                        let to = packed.as_i8_mut();
                        slots.zip(bytes).for_each(|(slot, &mut w)| to[slot] = w);
                    }
                }
            }
        }
        made.panels = packed;
        made.bias = matrix.take_bias();
        Ok(made)
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// What it is multiplied in.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Words of inputs.
    pub fn words(&self) -> usize {
        self.inputs.div_ceil(self.precision.per_word())
    }

    /// How the weights are held.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// The bias, if any.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// The packed weights, `[panel][word][PANEL]`.
    pub fn panels(&self) -> &Aligned {
        &self.panels
    }

    /// The rows in their file, if they were not packed.
    pub fn mapped(&self) -> Option<&MappedRows> {
        self.mapped.as_ref()
    }

    /// A block of a panel in words, `[word][PANEL]` from word `first` on, out of the mapped file. `lines` is room to work in.
    pub(super) fn gather(
        &self,
        isa: Isa,
        rows: &MappedRows,
        panel: usize,
        first: usize,
        lines: &mut Aligned,
        to: &mut [f32],
    ) {
        /// Numbers from one row to the next: two words' worth of a block, and a block of the file at both ends.
        const LINE: usize = 2 * DEPTH + 2 * 256 + 16;
        let (per, depth) = (self.precision.per_word(), to.len() / PANEL);
        let outputs = panel * PANEL..self.outputs.min((panel + 1) * PANEL);
        let width = outputs.len();
        let kind = rows.kind();
        if width < PANEL {
            to.fill(0.0);
        }
        let of_lane = |lane: usize| rows.row(outputs.start + lane.min(width - 1));
        // Whole blocks of the file around the numbers that are wanted; the same of what is wanted next.
        let (numbers, bytes) = (kind.numbers(), kind.bytes());
        let around = |start: usize, end: usize| {
            let (begin, stop) = (start / numbers * numbers, end.next_multiple_of(numbers));
            (begin, stop, begin / numbers * bytes..stop / numbers * bytes)
        };
        let (start, end) = (first * per, ((first + depth) * per).min(self.inputs));
        let (begin, stop, here) = around(start, end);
        let (ahead, coming) = match end < self.inputs {
            true => (0, around(end, (end + DEPTH * per).min(self.inputs)).2),
            false => (PANEL, around(0, (DEPTH * per).min(self.inputs)).2),
        };
        for output in outputs.start + ahead..(outputs.end + ahead).min(self.outputs) {
            prefetch(&rows.row(output)[coming.clone()]);
        }
        let as_is = (kind, self.precision) == (BlockType::BF16, Precision::Bf16);
        if as_is && cfg!(target_endian = "little") {
            // Two neighbours of a row are a word as it is.
            let lines = std::array::from_fn(|lane| &of_lane(lane)[4 * first..]);
            return transpose(isa, &lines, width, to);
        }
        lines.reserve_floats(PANEL * LINE);
        let all = lines.as_f32_mut();
        for lane in 0..width {
            let line = &mut all[lane * LINE..][..stop - begin];
            widen_blocks(isa, kind, &of_lane(lane)[here.clone()], line);
            if self.precision == Precision::Bf16 {
                narrow_in_place(isa, &mut line[start - begin..end - begin]);
            }
        }
        let lines = std::array::from_fn(|lane| {
            cast_slice(&all[lane.min(width - 1) * LINE + start - begin..][..depth])
        });
        transpose(isa, &lines, width, to);
    }

    /// One scale per output and padding output for int8 weights; empty otherwise.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// For int8 products, what the offset of the activations adds to each output and padding output.
    pub fn offsets(&self) -> &[i32] {
        &self.offsets
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let bias = self.bias.as_ref().map_or(0, Vec::len);
        let mapped = self.mapped.as_ref().map_or(0, MappedRows::bytes);
        mapped + self.panels.bytes() + 4 * (self.scales.len() + self.offsets.len() + bias)
    }

    /// Row `output` of the matrix, widened into `row` (`inputs` numbers).
    pub fn unpack_row(&self, output: usize, row: &mut [f32]) {
        if let Some(rows) = &self.mapped {
            widen_blocks(Isa::best(), rows.kind(), rows.row(output), row);
            if self.storage == Storage::Bf16 {
                row.iter_mut().for_each(|w| *w = bf16::from_f32(*w).to_f32());
            }
            return;
        }
        let (per, base) = (self.precision.per_word(), output / PANEL * self.words());
        let slots =
            (0..self.inputs).map(|k| ((base + k / per) * PANEL + output % PANEL) * per + k % per);
        match self.storage {
            Storage::F32 | Storage::File => {
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

/// A row of weights to bytes, to nearest; returns the scale.
fn to_int8(row: &[f32], to: &mut [i8]) -> f32 {
    let largest = row.iter().fold(0.0f32, |a, &w| a.max(w.abs()));
    let scale = largest / 127.0;
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    to.iter_mut().zip(row).for_each(|(to, &w)| *to = (w * inverse).round() as i8);
    scale
}

/// Refuses numbers that would become infinite in a narrower type.
pub(crate) fn check_range(matrix: &Matrix, storage: Storage, values: &[f32]) -> Result<()> {
    // Halfway from the largest number to what would come next, where rounding goes up.
    let limit = match storage {
        Storage::F16 => 65520.0,
        Storage::Bf16 => f32::from_bits(0x7f7f_8000),
        Storage::F32 | Storage::Int8 | Storage::File => return Ok(()),
    };
    let largest = values.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    if largest < limit {
        return Ok(());
    }
    Err(Error::expected(
        matrix.name(),
        format!("numbers below {limit} to hold as {storage}"),
        largest,
    )
    .with_hint("hold the weights in a wider type"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(outputs: usize, inputs: usize) -> Vec<f32> {
        (0..outputs * inputs).map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0).collect()
    }

    fn pack(outputs: usize, inputs: usize, storage: Storage, precision: Precision) -> Linear {
        let matrix = Matrix::from_values(outputs, inputs, weights(outputs, inputs));
        Linear::pack(matrix, storage, precision).unwrap()
    }

    #[test]
    fn unpacked_rows_equal_the_packed_matrix_in_every_float_storage() {
        let (outputs, inputs) = (37, 5);
        let matrix = weights(outputs, inputs); // multiples of 1/64 below 1: exact in every float type
        let held = [Storage::F32, Storage::F16, Storage::Bf16].map(|held| (held, Precision::F32));
        for (storage, precision) in held.into_iter().chain([(Storage::F32, Precision::Bf16)]) {
            let linear = pack(outputs, inputs, storage, precision);
            let mut row = vec![0.0; inputs];
            for r in 0..outputs {
                linear.unpack_row(r, &mut row);
                assert_eq!(row, matrix[r * inputs..][..inputs], "{storage:?} row {r}");
            }
        }
    }

    #[test]
    fn int8_weights_are_off_by_at_most_half_a_step() {
        let (outputs, inputs) = (33, 41);
        let matrix = weights(outputs, inputs);
        for precision in [Precision::F32, Precision::Int8] {
            let linear = pack(outputs, inputs, Storage::Int8, precision);
            let mut row = vec![0.0; inputs];
            for (r, weights) in matrix.chunks(inputs).enumerate() {
                linear.unpack_row(r, &mut row);
                let largest = weights.iter().fold(0.0f32, |a, w| a.max(w.abs()));
                for (a, b) in row.iter().zip(weights) {
                    assert!((a - b).abs() <= largest / 127.0 * 0.5001);
                }
            }
        }
    }

    #[test]
    fn a_weight_beyond_the_range_of_its_storage_is_an_error() {
        for (largest, storage, fits) in [
            (65504.0, Storage::F16, true),
            (65519.0, Storage::F16, true),
            (65520.0, Storage::F16, false),
            (-3.39e38, Storage::Bf16, true),
            (-3.4e38, Storage::Bf16, false),
            (f32::MAX, Storage::F32, true),
        ] {
            let matrix = Matrix::from_values(2, 2, vec![0.0, 1.0, largest, 2.0]);
            let packed = Linear::pack(matrix, storage, Precision::F32);
            assert_eq!(packed.is_ok(), fits, "{largest} {storage:?}");
        }
    }
}
