//! GGUF block types: how many numbers and bytes a block has, and what numbers its bytes mean.
//!
//! Formulas follow the reference loops of ggml's `ggml-quants.c` (`dequantize_row_*`), operation by operation,
//! so the numbers are the reference's bit for bit. Bytes are read one by one: no alignment, no byte order of
//! the machine.

/// How a GGUF tensor stores its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "ggml's own names")]
#[expect(non_camel_case_types, reason = "ggml's own names")]
pub enum BlockType {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
}

/// Numbers in a block of the older types.
const SMALL: usize = 32;
/// Numbers in a block of the K types.
const LARGE: usize = 256;

impl BlockType {
    /// Every type, with ggml's number for it.
    pub const ALL: [(u32, Self); 13] = [
        (0, Self::F32),
        (1, Self::F16),
        (2, Self::Q4_0),
        (3, Self::Q4_1),
        (6, Self::Q5_0),
        (7, Self::Q5_1),
        (8, Self::Q8_0),
        (10, Self::Q2_K),
        (11, Self::Q3_K),
        (12, Self::Q4_K),
        (13, Self::Q5_K),
        (14, Self::Q6_K),
        (30, Self::BF16),
    ];

    /// The type ggml gives this number, if it can be read.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == number).map(|(_, kind)| *kind)
    }

    /// Numbers in a block.
    pub fn numbers(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => SMALL,
            Self::Q2_K | Self::Q3_K | Self::Q4_K | Self::Q5_K | Self::Q6_K => LARGE,
        }
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q4_0 => 2 + 16,
            Self::Q4_1 => 4 + 16,
            Self::Q5_0 => 2 + 4 + 16,
            Self::Q5_1 => 4 + 4 + 16,
            Self::Q8_0 => 2 + 32,
            Self::Q2_K => 16 + 64 + 4,
            Self::Q3_K => 32 + 64 + 12 + 2,
            Self::Q4_K => 4 + 12 + 128,
            Self::Q5_K => 4 + 12 + 32 + 128,
            Self::Q6_K => 128 + 64 + 16 + 2,
        }
    }

    /// The numbers of whole blocks; stops at the end of the shorter side.
    pub fn widen(self, blocks: &[u8], to: &mut [f32]) {
        self.widen_here(blocks, to);
    }

    /// The same, compiled where it is called, for the instructions that are known to be there. A macro, for
    /// what is handed to another function is compiled without them.
    #[inline(always)]
    pub(crate) fn widen_here(self, blocks: &[u8], to: &mut [f32]) {
        macro_rules! each {
            ($block:ident) => {{
                let parts = blocks.chunks_exact(self.bytes());
                for (bytes, to) in parts.zip(to.chunks_exact_mut(self.numbers())) {
                    $block(bytes, to);
                }
            }};
        }
        match self {
            Self::F32 => {
                for (to, bytes) in to.iter_mut().zip(blocks.as_chunks::<4>().0) {
                    *to = f32::from_le_bytes(*bytes);
                }
            }
            Self::F16 => {
                for (to, word) in to.iter_mut().zip(blocks.as_chunks::<2>().0) {
                    *to = half_to_f32(u16::from_le_bytes(*word));
                }
            }
            Self::BF16 => {
                for (to, word) in to.iter_mut().zip(blocks.as_chunks::<2>().0) {
                    *to = f32::from_bits(u32::from(u16::from_le_bytes(*word)) << 16);
                }
            }
            Self::Q4_0 => each!(q4_0),
            Self::Q4_1 => each!(q4_1),
            Self::Q5_0 => each!(q5_0),
            Self::Q5_1 => each!(q5_1),
            Self::Q8_0 => each!(q8_0),
            Self::Q2_K => each!(q2_k),
            Self::Q3_K => each!(q3_k),
            Self::Q4_K => each!(q4_k),
            Self::Q5_K => each!(q5_k),
            Self::Q6_K => each!(q6_k),
        }
    }
}

/// The half-precision number at the start of some bytes.
#[inline(always)]
fn half(bytes: &[u8]) -> f32 {
    half_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// A half-precision number, exactly, without asking at every one what the machine has.
#[inline(always)]
pub(crate) fn half_to_f32(word: u16) -> f32 {
    let (sign, rest) = (u32::from(word & 0x8000) << 16, u32::from(word & 0x7fff));
    // Shifting the exponent by a product is exact for normal and subnormal halves alike.
    let scaled = (f32::from_bits(rest << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let special = if rest >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(sign | scaled | special)
}

/// `[d][16 × two nibbles]`: `(q − 8) · d`.
#[inline(always)]
fn q4_0(block: &[u8], to: &mut [f32]) {
    let d = half(block);
    let (low, high) = to.split_at_mut(SMALL / 2);
    for ((q, low), high) in block[2..].iter().zip(low).zip(high) {
        *low = f32::from(i16::from(q & 15) - 8) * d;
        *high = f32::from(i16::from(q >> 4) - 8) * d;
    }
}

/// `[d][m][16 × two nibbles]`: `q · d + m`.
#[inline(always)]
fn q4_1(block: &[u8], to: &mut [f32]) {
    let (d, m) = (half(block), half(&block[2..]));
    let (low, high) = to.split_at_mut(SMALL / 2);
    for ((q, low), high) in block[4..].iter().zip(low).zip(high) {
        *low = f32::from(q & 15) * d + m;
        *high = f32::from(q >> 4) * d + m;
    }
}

/// The fifth bits of numbers `i` and `i + 16`, in the place they have in the number.
#[inline(always)]
fn fifth_bits(bytes: &[u8]) -> impl Fn(usize) -> (u8, u8) {
    let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    move |i| ((bits >> i & 1) as u8 * 16, (bits >> (i + 16) & 1) as u8 * 16)
}

/// `[d][32 fifth bits][16 × two nibbles]`: `(q − 16) · d`.
#[inline(always)]
fn q5_0(block: &[u8], to: &mut [f32]) {
    let (d, fifth) = (half(block), fifth_bits(&block[2..]));
    let (low, high) = to.split_at_mut(SMALL / 2);
    for (i, ((q, low), high)) in block[6..].iter().zip(low).zip(high).enumerate() {
        let (a, b) = fifth(i);
        *low = f32::from(i16::from(q & 15 | a) - 16) * d;
        *high = f32::from(i16::from(q >> 4 | b) - 16) * d;
    }
}

/// `[d][m][32 fifth bits][16 × two nibbles]`: `q · d + m`.
#[inline(always)]
fn q5_1(block: &[u8], to: &mut [f32]) {
    let (d, m, fifth) = (half(block), half(&block[2..]), fifth_bits(&block[4..]));
    let (low, high) = to.split_at_mut(SMALL / 2);
    for (i, ((q, low), high)) in block[8..].iter().zip(low).zip(high).enumerate() {
        let (a, b) = fifth(i);
        *low = f32::from(q & 15 | a) * d + m;
        *high = f32::from(q >> 4 | b) * d + m;
    }
}

/// `[d][32 signed bytes]`: `q · d`.
#[inline(always)]
fn q8_0(block: &[u8], to: &mut [f32]) {
    let d = half(block);
    for (to, &q) in to.iter_mut().zip(&block[2..]) {
        *to = f32::from(q as i8) * d;
    }
}

/// `[16 × (scale, minimum) nibbles][64 × four numbers][d][dmin]`: `d·scale · q − dmin·minimum`, sixteen
/// numbers to a pair of nibbles.
#[inline(always)]
fn q2_k(block: &[u8], to: &mut [f32]) {
    let (scales, rest) = block.split_at(16);
    let (quants, ds) = rest.split_at(64);
    let (d, dmin) = (half(ds), half(&ds[2..]));
    for (group, to) in to.chunks_exact_mut(16).enumerate() {
        let (scale, min) =
            (d * f32::from(scales[group] & 15), dmin * f32::from(scales[group] >> 4));
        let (from, shift) = two_bits(group);
        for (to, q) in to.iter_mut().zip(&quants[from..]) {
            *to = scale * f32::from(q >> shift & 3) - min;
        }
    }
}

/// Where the low two bits of the sixteen numbers of a group lie: first byte and shift.
#[inline(always)]
fn two_bits(group: usize) -> (usize, usize) {
    (group / 8 * 32 + group % 2 * 16, group % 8 / 2 * 2)
}

/// `[32 bytes of third bits][64 × four numbers][16 six-bit scales][d]`: `d·(scale − 32) · (q − 4)`, where the
/// third bit stands for the 4.
#[inline(always)]
fn q3_k(block: &[u8], to: &mut [f32]) {
    let (third, rest) = block.split_at(32);
    let (quants, rest) = rest.split_at(64);
    let (scales, d) = (six_bits(rest), half(&rest[12..]));
    for (group, to) in to.chunks_exact_mut(16).enumerate() {
        let scale = d * f32::from(i16::from(scales[group]) - 32);
        let (from, shift) = two_bits(group);
        let mask = 1 << (group / 2);
        for ((to, q), third) in to.iter_mut().zip(&quants[from..]).zip(&third[group % 2 * 16..]) {
            let q = i16::from(q >> shift & 3) - if third & mask == 0 { 4 } else { 0 };
            *to = scale * f32::from(q);
        }
    }
}

/// Sixteen scales of six bits in twelve bytes: low nibbles in eight bytes, the high pairs in four.
#[inline(always)]
fn six_bits(bytes: &[u8]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let low = bytes[i % 8] >> (i / 8 * 4) & 15;
        let high = bytes[8 + i % 4] >> (i / 4 * 2) & 3;
        low | high << 4
    })
}

/// Scale and minimum of a group of Q4_K and Q5_K: six bits each, eight of both in twelve bytes.
#[inline(always)]
fn scale_and_minimum(bytes: &[u8], group: usize) -> (f32, f32) {
    let (scale, min) = if group < 4 {
        (bytes[group] & 63, bytes[group + 4] & 63)
    } else {
        let both = bytes[group + 4];
        (both & 15 | bytes[group - 4] >> 6 << 4, both >> 4 | bytes[group] >> 6 << 4)
    };
    (f32::from(scale), f32::from(min))
}

/// `[d][dmin][12 bytes of scales][128 × two nibbles]`: `d·scale · q − dmin·minimum`.
#[inline(always)]
fn q4_k(block: &[u8], to: &mut [f32]) {
    let (d, dmin, scales) = (half(block), half(&block[2..]), &block[4..16]);
    for (group, to) in to.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_and_minimum(scales, group);
        let (scale, min) = (d * scale, dmin * min);
        for (to, q) in to.iter_mut().zip(&block[16 + group / 2 * 32..]) {
            *to = scale * f32::from(q >> (group % 2 * 4) & 15) - min;
        }
    }
}

/// As Q4_K, with a fifth bit per number: `[d][dmin][12 bytes of scales][32 bytes of fifth bits][nibbles]`.
#[inline(always)]
fn q5_k(block: &[u8], to: &mut [f32]) {
    let (d, dmin, scales) = (half(block), half(&block[2..]), &block[4..16]);
    let (fifth, quants) = block[16..].split_at(32);
    for (group, to) in to.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_and_minimum(scales, group);
        let (scale, min) = (d * scale, dmin * min);
        for ((to, q), fifth) in to.iter_mut().zip(&quants[group / 2 * 32..]).zip(fifth) {
            let q = q >> (group % 2 * 4) & 15 | (fifth >> group & 1) << 4;
            *to = scale * f32::from(q) - min;
        }
    }
}

/// `[128 × two nibbles][64 × four pairs of high bits][16 signed scales][d]`: `d·scale · (q − 32)`.
#[inline(always)]
fn q6_k(block: &[u8], to: &mut [f32]) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (scales, d) = rest.split_at(16);
    let d = half(d);
    for (group, to) in to.chunks_exact_mut(32).enumerate() {
        // Four groups share 64 bytes of nibbles and 32 bytes of high bits.
        let (part, at) = (group / 4, group % 4);
        let nibbles = &low[part * 64 + at % 2 * 32..];
        for (i, to) in to.iter_mut().enumerate() {
            let low = nibbles[i] >> (at / 2 * 4) & 15;
            let high = high[part * 32 + i] >> (at * 2) & 3;
            let scale = scales[group * 2 + i / 16] as i8;
            *to = d * f32::from(scale) * f32::from(i16::from(low | high << 4) - 32);
        }
    }
}
