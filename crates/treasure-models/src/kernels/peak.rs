//! The machine's own speed limit: multiply-adds on registers, nothing else.

use std::hint::black_box;

use super::{Isa, amx, isa::Set};
use crate::exec::Precision;

/// Runs `rounds` rounds of independent multiply-adds in a precision on this thread and returns the operations
/// done, two per multiply-add. Time it to learn the peak of one thread. Where the machine has no instruction for
/// a precision, this is the peak of f32.
pub fn register_flops(isa: Isa, precision: Precision, rounds: usize) -> f64 {
    match isa.set() {
        // SAFETY: this `Isa` exists, so detection found AMX on this machine.
        #[cfg(target_arch = "x86_64")]
        Set::Amx if isa.has_tiles(precision) => unsafe { amx::rounds(precision, rounds) },
        // SAFETY: detection has just found AVX512_BF16, and AVX-512F with this `Isa`.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 if precision == Precision::Bf16 && isa.dots_bf16() => unsafe {
            x86::avx512_bf16(rounds)
        },
        // SAFETY: detection has just found AVX512_VNNI, and AVX-512F with this `Isa`.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 if precision == Precision::Int8 && isa.dots_int8() => unsafe {
            x86::avx512_vnni(rounds)
        },
        // SAFETY: this `Isa` exists, so detection found AVX-512F on this machine.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 | Set::Amx => unsafe { x86::avx512(rounds) },
        // SAFETY: this `Isa` exists, so detection found AVX2 and FMA on this machine.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => unsafe { x86::avx2(rounds) },
        Set::Portable => portable(rounds),
    }
}

fn portable(rounds: usize) -> f64 {
    let (factor, term) = (black_box(0.999f32), black_box(0.001f32));
    let mut sums = [1.0f32; 64];
    for _ in 0..rounds {
        sums.iter_mut().for_each(|x| *x = *x * factor + term);
    }
    black_box(sums);
    2.0 * 64.0 * rounds as f64
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{arch::x86_64::*, hint::black_box, mem::transmute};

    /// Chains enough to cover the latency of a multiply-add on two ports.
    const CHAINS: usize = 12;

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(rounds: usize) -> f64 {
        // Opaque numbers, or the compiler works the chains out beforehand.
        let (factor, term) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let mut sums = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
        (2 * 16 * CHAINS * rounds) as f64
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn avx512_bf16(rounds: usize) -> f64 {
        // SAFETY: vectors of 64 bytes, any bits of which are numbers of either type.
        let factor =
            unsafe { transmute::<__m512i, __m512bh>(_mm512_set1_epi32(black_box(0x3f00_3f00))) };
        let mut sums = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
        (4 * 16 * CHAINS * rounds) as f64
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn avx512_vnni(rounds: usize) -> f64 {
        let factor = _mm512_set1_epi32(black_box(0x0102_0304));
        let mut sums = [_mm512_set1_epi32(1); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, factor, factor);
            }
        }
        black_box(sums);
        (8 * 16 * CHAINS * rounds) as f64
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(rounds: usize) -> f64 {
        let (factor, term) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
        let mut sums = [_mm256_set1_ps(1.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, term);
            }
        }
        black_box(sums);
        (2 * 8 * CHAINS * rounds) as f64
    }
}
