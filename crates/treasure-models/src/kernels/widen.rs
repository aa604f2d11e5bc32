//! Half-precision and 8-bit weights to f32, a block at a time; exact.

use super::{
    Isa,
    isa::{MulAdd, Set, per_isa},
    linear::PANEL,
};
use crate::gguf::{BlockType, half_to_f32};

#[inline(always)]
fn bf16_to_f32<F: MulAdd>(from: &[u16], to: &mut [f32]) {
    for (to, &x) in to.iter_mut().zip(from) {
        *to = f32::from_bits(u32::from(x) << 16);
    }
}

fn f16_to_f32(from: &[u16], to: &mut [f32]) {
    for (to, &x) in to.iter_mut().zip(from) {
        *to = half_to_f32(x);
    }
}

#[inline(always)]
fn int8_to_f32<F: MulAdd>(from: &[i8], scales: &[f32], to: &mut [f32]) {
    for (to, from) in to.chunks_exact_mut(PANEL).zip(from.chunks_exact(PANEL)) {
        for ((to, &x), &scale) in to.iter_mut().zip(from).zip(scales) {
            *to = f32::from(x) * scale;
        }
    }
}

per_isa! { pub(super) fn widen_bf16(from: &[u16], to: &mut [f32]) = bf16_to_f32; }
/// Half precision by the machine's own instruction where it has one; it is exact, so the values are the same.
pub(super) fn widen_f16(isa: Isa, from: &[u16], to: &mut [f32]) {
    match isa.set() {
        Set::Portable => f16_to_f32(from, to),
        // SAFETY: this `Isa` exists, so detection found F16C and AVX2, which brings AVX, on this machine.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 | Set::Avx512 | Set::Amx => unsafe { x86::f16_to_f32(from, to) },
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn f16_to_f32(from: &[u16], to: &mut [f32]) {
        let (from, last) = from.as_chunks::<8>();
        let (to, rest) = to.as_chunks_mut::<8>();
        for (to, from) in to.iter_mut().zip(from) {
            // SAFETY: both arrays hold eight numbers, and loads and stores are the unaligned ones.
            unsafe {
                let wide = _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()));
                _mm256_storeu_ps(to.as_mut_ptr(), wide);
            }
        }
        super::f16_to_f32(last, rest);
    }
}
per_isa! { pub(super) fn widen_int8(from: &[i8], scales: &[f32], to: &mut [f32]) = int8_to_f32; }

#[inline(always)]
fn blocks_to_f32<F: MulAdd>(kind: BlockType, from: &[u8], to: &mut [f32]) {
    kind.widen_here(from, to);
}

per_isa! { fn widen_quants(kind: BlockType, from: &[u8], to: &mut [f32]) = blocks_to_f32; }

/// Whole blocks as a file stores them.
pub(super) fn widen_blocks(isa: Isa, kind: BlockType, from: &[u8], to: &mut [f32]) {
    if kind != BlockType::F16 {
        return widen_quants(isa, kind, from, to);
    }
    let mut words = [0u16; 64];
    for (to, from) in to.chunks_mut(64).zip(from.chunks(128)) {
        let pairs = from.as_chunks::<2>().0;
        words.iter_mut().zip(pairs).for_each(|(word, pair)| *word = u16::from_le_bytes(*pair));
        widen_f16(isa, &words[..to.len()], to);
    }
}
