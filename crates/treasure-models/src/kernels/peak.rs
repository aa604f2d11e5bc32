//! The machine's own speed limit: fused multiply-adds on registers, nothing else.

use std::hint::black_box;

use super::{Isa, isa::Set};

/// Runs `rounds` rounds of independent multiply-adds on this thread and returns the floating-point
/// operations done. Time it to learn the peak of one thread.
pub fn register_flops(isa: Isa, rounds: usize) -> f64 {
    match isa.set() {
        // SAFETY: this `Isa` exists, so detection found AVX-512F on this machine.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => unsafe { x86::avx512(rounds) },
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
    use std::{arch::x86_64::*, hint::black_box};

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
