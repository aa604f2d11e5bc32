//! Numbers as the kernels multiply them: words of 32 bits with one f32, two bf16 or four bytes.
//!
//! What a product of words is, is defined here in plain Rust, which runs where the machine has no such
//! instruction and is what the tests hold the instructions against:
//!
//! - *bf16*: `sum + high · high`, rounded once, then `+ low · low`, rounded once; round to nearest even; what
//!   is subnormal, going in or coming out, is a zero of its sign. This is VDPBF16PS as Intel defines it and AMD
//!   computes it. Without a fused multiply-add (the portable set) results beyond 2¹²⁷ or below 2⁻¹⁰⁰ may differ.
//! - *bf16 on tiles of AMX*: per [`STEP`] words one sum over the low halves and one over the high halves, each
//!   from 0 on in the order of the words, a rounding per product; then `sum + (low + high)`, each rounded. Nearest
//!   even and subnormal numbers as above. This is TDPBF16PS as Intel defines and computes it. It is another
//!   rounding of the same sum, of which the machine makes only one kind: results of tiles and of vectors agree
//!   within rounding.
//! - *int8*: `sum + Σ a · b` over four bytes of `a` without and of `b` with sign, in wrapping 32-bit integers.
//!   This is VPDPBUSD and, on tiles, TDPBUSD; no order of summation can change it.

use bytemuck::{cast_slice, cast_slice_mut};

#[cfg(doc)]
use super::amx::STEP;
use super::{
    Isa,
    isa::{MulAdd, Set, per_isa},
    linear::PANEL,
    tile::{STRIDE, Tile},
};

/// Most inputs whose int8 products cannot overflow 32 bits: 255 · 127 each.
pub(crate) const MAX_INT8_INPUTS: usize = (1 << 31) / (255 * 127) - 1;

/// What is added to a quantised activation, so that it has no sign.
pub(crate) const OFFSET: i32 = 128;

/// A number to bf16, to nearest, ties to even; subnormals to zero; NaN stays NaN. As VCVTNE2PS2BF16. It is the
/// upper half of what is returned.
#[inline(always)]
fn upper_half(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    let magnitude = bits & 0x7fff_ffff;
    let small = if magnitude < 0x0080_0000 { bits & 0x8000_0000 } else { rounded };
    0xffff_0000 & if magnitude > 0x7f80_0000 { bits | 0x0040_0000 } else { small }
}

/// The same as the 16 bits alone.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> u16 {
    (upper_half(x) >> 16) as u16
}

/// A subnormal number to a zero of its sign.
#[inline(always)]
fn flush(x: f32) -> f32 {
    let small = x.to_bits() & 0x7f80_0000 == 0;
    f32::from_bits(if small { x.to_bits() & 0x8000_0000 } else { x.to_bits() })
}

/// The numbers of a word of bf16, which are never subnormal: [`to_bf16`] made them.
#[inline(always)]
fn halves(word: f32) -> (f32, f32) {
    let pair: [u16; 2] = bytemuck::cast(word);
    (f32::from_bits(u32::from(pair[0]) << 16), f32::from_bits(u32::from(pair[1]) << 16))
}

#[inline(always)]
fn bf16_tile<F: MulAdd>(tile: Tile, a: &[f32], b: &[f32], c: &mut [f32]) {
    let (panel, _) = b[..tile.depth * PANEL].as_chunks::<PANEL>();
    for row in 0..tile.rows {
        let mut sums = [0.0f32; PANEL];
        for (&x, panel) in a[row * STRIDE..].iter().zip(panel) {
            let (low, high) = halves(x);
            for (sum, &w) in sums.iter_mut().zip(panel) {
                let (w_low, w_high) = halves(w);
                *sum = flush(F::mul_add(high, w_high, *sum));
                *sum = flush(F::mul_add(low, w_low, *sum));
            }
        }
        for (to, sum) in c[row * tile.c_stride..].iter_mut().zip(sums) {
            *to = if tile.add { *to + sum } else { sum };
        }
    }
}

#[inline(always)]
fn int8_tile<F: MulAdd>(tile: Tile, a: &[f32], b: &[f32], c: &mut [f32]) {
    let (a, b): (&[[u8; 4]], &[[i8; 4]]) = (cast_slice(a), cast_slice(b));
    let c: &mut [i32] = cast_slice_mut(c);
    let (panel, _) = b[..tile.depth * PANEL].as_chunks::<PANEL>();
    for row in 0..tile.rows {
        let mut sums = [0i32; PANEL];
        for (x, panel) in a[row * STRIDE..].iter().zip(panel) {
            for (sum, w) in sums.iter_mut().zip(panel) {
                let terms = x.iter().zip(w).map(|(&x, &w)| i32::from(x) * i32::from(w));
                *sum = sum.wrapping_add(terms.sum());
            }
        }
        for (to, sum) in c[row * tile.c_stride..].iter_mut().zip(sums) {
            *to = if tile.add { to.wrapping_add(sum) } else { sum };
        }
    }
}

/// A tile of bf16 as tiles of AMX have it: what the tests hold TDPBF16PS against.
#[cfg(test)]
pub(super) fn multiply_bf16_on_tiles(tile: Tile, a: &[f32], b: &[f32], c: &mut [f32]) {
    use super::amx::STEP;
    let flushed = |word: f32| {
        let (low, high) = halves(word);
        (flush(low), flush(high))
    };
    for row in 0..tile.rows {
        for column in 0..PANEL {
            let to = &mut c[row * tile.c_stride + column];
            let mut sum = if tile.add { flush(*to) } else { 0.0 };
            for start in (0..tile.depth).step_by(STEP) {
                let (mut even, mut odd) = (0.0f32, 0.0f32);
                for k in start..start + STEP {
                    // Words behind the last are zero, as for the kernel.
                    let inside = k < tile.depth;
                    let x = if inside { a[row * STRIDE + k] } else { 0.0 };
                    let w = if inside { b[k * PANEL + column] } else { 0.0 };
                    let ((low, high), (w_low, w_high)) = (flushed(x), flushed(w));
                    even = flush(low.mul_add(w_low, even));
                    odd = flush(high.mul_add(w_high, odd));
                }
                sum = flush(sum + flush(even + odd));
            }
            *to = sum;
        }
    }
}

per_isa! {
    /// A tile of bf16 without the instruction.
    pub(super) fn multiply_bf16(tile: Tile, a: &[f32], b: &[f32], c: &mut [f32]) = bf16_tile;
}
per_isa! {
    /// A tile of int8 without the instruction.
    pub(super) fn multiply_int8(tile: Tile, a: &[f32], b: &[f32], c: &mut [f32]) = int8_tile;
}

#[inline(always)]
fn narrow_all<F: MulAdd>(from: &[f32], to: &mut [u16]) {
    to.iter_mut().zip(from).for_each(|(to, &x)| *to = to_bf16(x));
}

per_isa! { fn narrow_plainly(from: &[f32], to: &mut [u16]) = narrow_all; }

/// Numbers to bf16.
pub(crate) fn narrow(isa: Isa, from: &[f32], to: &mut [u16]) {
    #[cfg(target_arch = "x86_64")]
    if isa.dots_bf16() {
        // SAFETY: detection found AVX-512F and AVX512_BF16 for this `Isa`.
        return unsafe { x86::narrow(from, to) };
    }
    narrow_plainly(isa, from, to);
}

/// Numbers to bf16 in place: the first half of the slice then holds them as words, an odd last one beside 0.
pub(crate) fn narrow_in_place(isa: Isa, values: &mut [f32]) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if isa.dots_bf16() {
        // SAFETY: detection found AVX-512F and AVX512_BF16 for this `Isa`.
        done = unsafe { x86::narrow_in_place(values) };
    }
    for at in (done..values.len()).step_by(PANEL) {
        let mut wide = [0.0f32; PANEL];
        let count = PANEL.min(values.len() - at);
        wide[..count].copy_from_slice(&values[at..][..count]);
        let words: &mut [u16] = cast_slice_mut(&mut values[at / 2..][..count.div_ceil(2)]);
        narrow_plainly(isa, &wide[..words.len()], words);
    }
}

#[inline(always)]
fn interleave_all<F: MulAdd>(even: &[f32], odd: &[f32], to: &mut [f32]) {
    for ((to, &even), &odd) in to.iter_mut().zip(even).zip(odd) {
        let (even, odd) = (upper_half(even), upper_half(odd));
        // The even one comes first in memory.
        let little = cfg!(target_endian = "little");
        *to = f32::from_bits(if little { even >> 16 | odd } else { even | odd >> 16 });
    }
}

per_isa! {
    /// Words of bf16 of which one row gives the low half and another the high half.
    pub(crate) fn interleave(even: &[f32], odd: &[f32], to: &mut [f32]) = interleave_all;
}

/// The scale of a row whose largest magnitude has these bits, and the factor that its numbers are quantised by.
#[inline(always)]
fn scale_of(largest: u32) -> (f32, f32) {
    let largest = f32::from_bits(largest);
    // So small a row is as good as zero, and its inverse would overflow.
    if largest < 1e-30 { (0.0, 0.0) } else { (largest / 127.0, 127.0 / largest) }
}

#[inline(always)]
fn quantise_all<F: MulAdd>(from: &[f32], to: &mut [u8]) -> f32 {
    // As bits, where what is no number is larger than every number and so is not lost.
    let largest = from.iter().fold(0, |most: u32, x| most.max(x.to_bits() & 0x7fff_ffff));
    let (scale, inverse) = scale_of(largest);
    for (to, &x) in to.iter_mut().zip(from) {
        *to = quantised(x, inverse);
    }
    scale
}

/// Adding 1.5 · 2²³ rounds to the nearest integer, ties to even, and leaves it in the low bits.
#[inline(always)]
fn quantised(x: f32, inverse: f32) -> u8 {
    const MAGIC: f32 = 12_582_912.0;
    ((x * inverse + MAGIC).to_bits() as i32 + OFFSET) as u8
}

per_isa! { fn quantise_plainly(from: &[f32], to: &mut [u8]) -> f32 = quantise_all; }

/// A row to bytes without sign, `x ≈ scale · (byte − 128)`; returns the scale, which is NaN or infinite when the
/// row holds such a number.
pub(crate) fn quantise(isa: Isa, from: &[f32], to: &mut [u8]) -> f32 {
    match isa.set() {
        // SAFETY: this `Isa` exists, so detection found AVX-512F on this machine.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 | Set::Amx => unsafe { x86::quantise(from, to) },
        _ => quantise_plainly(isa, from, to),
    }
}

#[inline(always)]
fn rescale_all<F: MulAdd>(tile: &mut [f32], rows: &[f32], scales: &[f32], offsets: &[i32]) {
    for (tile, &row) in tile.chunks_exact_mut(PANEL).zip(rows) {
        let sums = tile.iter_mut().zip(scales).zip(offsets);
        for ((x, &scale), &offset) in sums {
            *x = x.to_bits().cast_signed().wrapping_sub(offset) as f32 * (scale * row);
        }
    }
}

per_isa! {
    /// A tile of integer sums to what they stand for: without the offset of the activations, scaled.
    pub(crate) fn rescale(tile: &mut [f32], rows: &[f32], scales: &[f32], offsets: &[i32]) = rescale_all;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{arch::x86_64::*, mem::transmute};

    /// Narrows whole vectors from the front and returns how many numbers that were.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn narrow_in_place(values: &mut [f32]) -> usize {
        let (whole, start) = (values.len() / 32 * 32, values.as_mut_ptr());
        for at in (0..whole).step_by(32) {
            // SAFETY: 32 numbers from `at` on are read before 16 words are written from `at / 2` on, which no
            // later step reads; both lie within the slice, and loads and stores are the unaligned ones.
            unsafe {
                let from = start.add(at);
                let (low, high) = (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16)));
                let both = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
                _mm512_storeu_si512(start.add(at / 2).cast(), both);
            }
        }
        whole
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn quantise(from: &[f32], to: &mut [u8]) -> f32 {
        let len = from.len().min(to.len());
        let (from, last) = from[..len].as_chunks::<16>();
        let (to, rest) = to[..len].as_chunks_mut::<16>();
        let mut most = _mm512_setzero_si512();
        for from in from {
            // SAFETY: the array holds sixteen numbers.
            let bits = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
            most = _mm512_max_epu32(most, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fff_ffff)));
        }
        let most = last
            .iter()
            .fold(_mm512_reduce_max_epu32(most), |most, x| most.max(x.to_bits() & 0x7fff_ffff));
        let (scale, inverse) = super::scale_of(most);
        let offset = _mm512_set1_epi32(super::OFFSET);
        for (to, from) in to.iter_mut().zip(from) {
            // SAFETY: the arrays hold sixteen numbers and sixteen bytes. Rounding is to nearest even: nobody here
            // changes the mode.
            unsafe {
                let scaled = _mm512_mul_ps(_mm512_loadu_ps(from.as_ptr()), _mm512_set1_ps(inverse));
                let bytes = _mm512_add_epi32(_mm512_cvtps_epi32(scaled), offset);
                _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(bytes));
            }
        }
        for (to, &x) in rest.iter_mut().zip(last) {
            *to = super::quantised(x, inverse);
        }
        scale
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn narrow(from: &[f32], to: &mut [u16]) {
        let len = from.len().min(to.len());
        let (from, last) = from[..len].as_chunks::<32>();
        let (to, rest) = to[..len].as_chunks_mut::<32>();
        for (to, from) in to.iter_mut().zip(from) {
            // SAFETY: both arrays hold 32 numbers; loads and stores are the unaligned ones; 64 bytes either way.
            unsafe {
                let (low, high) =
                    (_mm512_loadu_ps(from.as_ptr()), _mm512_loadu_ps(from.as_ptr().add(16)));
                let both = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
                _mm512_storeu_si512(to.as_mut_ptr().cast(), both);
            }
        }
        for (to, &x) in rest.iter_mut().zip(last) {
            *to = super::to_bf16(x);
        }
    }
}
