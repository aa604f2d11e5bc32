//! The micro-kernel: a few rows times one panel of 32 columns, for up to [`DEPTH`] inputs.
//!
//! Every element is one chain of multiply-adds over increasing k, then one addition to what earlier blocks
//! left: the number of rows in a tile never changes a bit of any of them.

use super::Isa;
use crate::stack::PANEL;

/// Inputs per block: a block of the panel (48 KiB) streams through the nearest caches.
pub(crate) const DEPTH: usize = 384;

/// Floats from one row of a packed block to the next: off a power of two, so that rows do not share sets.
pub(crate) const STRIDE: usize = DEPTH + 16;

/// Rows of activations, copied to a fixed stride, against a panel of weights.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    /// Rows in `a`, at most `isa.tile_rows()`.
    pub rows: usize,
    /// Inputs, at most [`DEPTH`].
    pub depth: usize,
    /// Floats from one row of `c` to the next.
    pub c_stride: usize,
    /// Whether to add to `c` or to overwrite it.
    pub add: bool,
}

/// `c[r][j] (+)= Σₖ a[r][k] · b[k][j]` for `j` in `0..32`. `next` is where the coming panel lies: it is
/// only prefetched.
pub(crate) fn multiply(
    isa: Isa,
    tile: Tile,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    next: *const f32,
) {
    let Tile { rows, depth, c_stride, .. } = tile;
    assert!(rows > 0 && rows <= isa.tile_rows() && depth <= DEPTH);
    assert!(a.len() >= (rows - 1) * STRIDE + depth && b.len() >= depth * PANEL);
    assert!(c.len() >= (rows - 1) * c_stride + PANEL);
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: the bounds were just checked, and an `Isa` other than portable is only made on machines
    // that have it.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => x86::avx512(tile, a, b, c, next),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => x86::avx2(tile, a, b, c, next),
            _ => portable(tile, a, b, c),
        }
    }
}

/// # Safety
/// As checked by [`multiply`].
unsafe fn portable(tile: Tile, a: *const f32, b: *const f32, c: *mut f32) {
    for row in 0..tile.rows {
        let mut sums = [0.0f32; PANEL];
        for k in 0..tile.depth {
            // SAFETY: `row < rows`, `k < depth`.
            let (x, panel) =
                unsafe { (*a.add(row * STRIDE + k), &*b.add(k * PANEL).cast::<[f32; PANEL]>()) };
            for (sum, w) in sums.iter_mut().zip(panel) {
                *sum += x * w;
            }
        }
        // SAFETY: `c` holds 32 floats from each row on.
        let to = unsafe { &mut *c.add(row * tile.c_stride).cast::<[f32; PANEL]>() };
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = if tile.add { *to + sum } else { sum };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{PANEL, STRIDE, Tile};

    macro_rules! by_rows {
        ($kernel:ident, $tile:ident, ($a:expr, $b:expr, $c:expr, $next:expr), $($rows:literal)*) => {
            match $tile.rows {
                // SAFETY: passed on from the caller.
                $($rows => unsafe { $kernel::<$rows>($tile, $a, $b, $c, $next) },)*
                _ => unreachable!("the caller checked the number of rows"),
            }
        };
    }

    /// # Safety
    /// As checked by `multiply`; needs AVX-512F.
    pub(super) unsafe fn avx512(
        tile: Tile,
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        next: *const f32,
    ) {
        by_rows!(rows512, tile, (a, b, c, next), 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    }

    /// # Safety
    /// As checked by `multiply`; needs AVX2 and FMA.
    pub(super) unsafe fn avx2(
        tile: Tile,
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        next: *const f32,
    ) {
        by_rows!(rows256, tile, (a, b, c, next), 1 2 3 4 5 6);
        // The second half of the panel starts 16 columns later.
        by_rows!(rows256, tile, (a, b.add(16), c.add(16), next.wrapping_add(16)), 1 2 3 4 5 6);
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn rows512<const ROWS: usize>(
        tile: Tile,
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        next: *const f32,
    ) {
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        let (mut a, mut b, mut next) = (a, b, next);
        let step = |a: *const f32, b: *const f32, sums: &mut [[__m512; 2]; ROWS]| {
            // SAFETY: within the bounds the caller checked.
            unsafe {
                let (low, high) = (_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(16)));
                for (row, sum) in sums.iter_mut().enumerate() {
                    let x = _mm512_set1_ps(*a.add(row * STRIDE));
                    sum[0] = _mm512_fmadd_ps(x, low, sum[0]);
                    sum[1] = _mm512_fmadd_ps(x, high, sum[1]);
                }
            }
        };
        for _ in 0..tile.depth / 4 {
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            next = next.wrapping_add(16);
            // SAFETY: four more inputs exist.
            unsafe {
                step(a, b, &mut sums);
                step(a.add(1), b.add(PANEL), &mut sums);
                step(a.add(2), b.add(2 * PANEL), &mut sums);
                step(a.add(3), b.add(3 * PANEL), &mut sums);
                a = a.add(4);
                b = b.add(4 * PANEL);
            }
        }
        for _ in 0..tile.depth % 4 {
            step(a, b, &mut sums);
            // SAFETY: at most one past the last input.
            unsafe {
                a = a.add(1);
                b = b.add(PANEL);
            }
        }
        for (row, [mut low, mut high]) in sums.into_iter().enumerate() {
            // SAFETY: `c` holds 32 floats from each row on.
            unsafe {
                let to = c.add(row * tile.c_stride);
                if tile.add {
                    low = _mm512_add_ps(_mm512_loadu_ps(to), low);
                    high = _mm512_add_ps(_mm512_loadu_ps(to.add(16)), high);
                }
                _mm512_storeu_ps(to, low);
                _mm512_storeu_ps(to.add(16), high);
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn rows256<const ROWS: usize>(
        tile: Tile,
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        next: *const f32,
    ) {
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        let (mut a, mut b, mut next) = (a, b, next);
        let step = |a: *const f32, b: *const f32, sums: &mut [[__m256; 2]; ROWS]| {
            // SAFETY: within the bounds the caller checked.
            unsafe {
                let (low, high) = (_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8)));
                for (row, sum) in sums.iter_mut().enumerate() {
                    let x = _mm256_broadcast_ss(&*a.add(row * STRIDE));
                    sum[0] = _mm256_fmadd_ps(x, low, sum[0]);
                    sum[1] = _mm256_fmadd_ps(x, high, sum[1]);
                }
            }
        };
        for _ in 0..tile.depth / 4 {
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
            next = next.wrapping_add(PANEL);
            // SAFETY: four more inputs exist.
            unsafe {
                step(a, b, &mut sums);
                step(a.add(1), b.add(PANEL), &mut sums);
                step(a.add(2), b.add(2 * PANEL), &mut sums);
                step(a.add(3), b.add(3 * PANEL), &mut sums);
                a = a.add(4);
                b = b.add(4 * PANEL);
            }
        }
        for _ in 0..tile.depth % 4 {
            step(a, b, &mut sums);
            // SAFETY: at most one past the last input.
            unsafe {
                a = a.add(1);
                b = b.add(PANEL);
            }
        }
        for (row, [mut low, mut high]) in sums.into_iter().enumerate() {
            // SAFETY: `c` holds 16 floats of this half from each row on.
            unsafe {
                let to = c.add(row * tile.c_stride);
                if tile.add {
                    low = _mm256_add_ps(_mm256_loadu_ps(to), low);
                    high = _mm256_add_ps(_mm256_loadu_ps(to.add(8)), high);
                }
                _mm256_storeu_ps(to, low);
                _mm256_storeu_ps(to.add(8), high);
            }
        }
    }
}
