//! The micro-kernel: a few rows times one panel of 32 columns, for up to [`DEPTH`] words of inputs.
//!
//! A word is what one lane of one instruction takes: an f32, two bf16 or four bytes ([`super::words`]). Every
//! element is one chain over increasing k, then one addition to what earlier blocks left: the number of
//! rows in a tile never changes a bit of any of them.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::amx::Tiles;
use super::{
    Isa,
    isa::Set,
    linear::PANEL,
    words::{multiply_bf16, multiply_int8},
};
use crate::exec::Precision;

/// Words per block: a block of the panel (48 KiB) streams through the nearest caches.
pub(crate) const DEPTH: usize = 384;

/// Words from one row of a packed block to the next: off a power of two, so that rows do not share sets.
pub(crate) const STRIDE: usize = DEPTH + 16;

/// Rows of activations, copied to a fixed stride, against a panel of weights.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    /// Rows in `a`, any number.
    pub rows: usize,
    /// Words of inputs, at most [`DEPTH`].
    pub depth: usize,
    /// Floats from one row of `c` to the next.
    pub c_stride: usize,
    /// Whether to add to `c` or to overwrite it.
    pub add: bool,
}

impl Tile {
    /// Rows in near-equal tiles of at most `most`.
    fn split(self, most: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        let tiles = self.rows.div_ceil(most);
        (0..tiles).map(move |i| (i, i * self.rows / tiles..(i + 1) * self.rows / tiles))
    }
}

/// The micro-kernel of a precision, ready on this thread: where it works on tiles of AMX, they are configured as
/// long as it lives. It is made at the entry of a product and dropped at its end.
pub(crate) struct Kernel {
    isa: Isa,
    kind: Precision,
    #[cfg(target_arch = "x86_64")]
    tiles: Option<Tiles>,
}

impl Kernel {
    /// The kernel of a set.
    pub fn new(isa: Isa, kind: Precision) -> Self {
        Self {
            isa,
            kind,
            // SAFETY: this `Isa` has tiles, so detection found AMX.
            #[cfg(target_arch = "x86_64")]
            tiles: isa.has_tiles(kind).then(|| unsafe { Tiles::configured() }),
        }
    }

    /// The instructions it runs on.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// `c[r][j] (+)= Σₖ a[r][k] · b[k][j]` for `j` in `0..32`, `a` and `b` in words of its kind. With `Int8` `a` is
    /// without sign, and `c` holds integers of 32 bits. Rows are made whole ([`Isa::whole_rows`]): what lies behind
    /// the last in `a` is read, in `c` overwritten. `next` is where the coming panel lies, if it is known: it is
    /// only prefetched, never read, so it may be any address.
    pub fn multiply(
        &self,
        tile: Tile,
        a: &[f32],
        b: &[f32],
        c: &mut [f32],
        next: Option<*const f32>,
    ) {
        let Tile { rows, depth, c_stride, .. } = tile;
        assert!(rows > 0 && depth <= DEPTH);
        let whole = self.isa.whole_rows(self.kind, rows);
        assert!(a.len() >= (whole - 1) * STRIDE + depth && b.len() >= depth * PANEL);
        assert!(c_stride >= PANEL && c.len() >= (whole - 1) * c_stride + PANEL);
        #[cfg(target_arch = "x86_64")]
        if let Some(tiles) = &self.tiles {
            // SAFETY: the bounds, with whole rows, were just checked.
            return unsafe {
                tiles.multiply(self.kind, tile, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), next);
            };
        }
        by_vectors(self.isa, self.kind, tile, a, b, c, next);
    }
}

/// The same without tiles.
fn by_vectors(
    isa: Isa,
    kind: Precision,
    tile: Tile,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    next: Option<*const f32>,
) {
    let Tile { rows, depth, c_stride, .. } = tile;
    assert!(rows > 0 && depth <= DEPTH);
    assert!(a.len() >= (rows - 1) * STRIDE + depth && b.len() >= depth * PANEL);
    assert!(c.len() >= (rows - 1) * c_stride + PANEL);
    #[cfg(target_arch = "x86_64")]
    let (from, weights, to) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    match (kind, isa.set()) {
        // SAFETY: the bounds were just checked; this `Isa` exists, so detection found AVX-512F.
        #[cfg(target_arch = "x86_64")]
        (Precision::F32, Set::Avx512 | Set::Amx) => unsafe {
            x86::avx512(tile, from, weights, to, next)
        },
        // SAFETY: the bounds were just checked; this `Isa` exists, so detection found AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        (Precision::F32, Set::Avx2) => unsafe { x86::avx2(tile, from, weights, to, next) },
        (Precision::F32, Set::Portable) => portable(tile, a, b, c),
        // SAFETY: the bounds were just checked; detection found AVX-512F and AVX512_BF16 for this `Isa`.
        #[cfg(target_arch = "x86_64")]
        (Precision::Bf16, Set::Avx512 | Set::Amx) if isa.dots_bf16() => unsafe {
            x86::avx512_bf16(tile, from, weights, to, next);
        },
        (Precision::Bf16, _) => multiply_bf16(isa, tile, a, b, c),
        // SAFETY: the bounds were just checked; detection found AVX-512F and AVX512_VNNI for this `Isa`.
        #[cfg(target_arch = "x86_64")]
        (Precision::Int8, Set::Avx512 | Set::Amx) if isa.dots_int8() => unsafe {
            x86::avx512_vnni(tile, from, weights, to, next);
        },
        // SAFETY: the bounds were just checked; detection found AVX2 and AVX-VNNI for this `Isa`.
        #[cfg(target_arch = "x86_64")]
        (Precision::Int8, Set::Avx2) if isa.dots_int8() => unsafe {
            x86::avx_vnni(tile, from, weights, to, next);
        },
        (Precision::Int8, _) => multiply_int8(isa, tile, a, b, c),
    }
}

fn portable(tile: Tile, a: &[f32], b: &[f32], c: &mut [f32]) {
    let (panel, _) = b[..tile.depth * PANEL].as_chunks::<PANEL>();
    for row in 0..tile.rows {
        let mut sums = [0.0f32; PANEL];
        for (x, panel) in a[row * STRIDE..].iter().zip(panel) {
            for (sum, w) in sums.iter_mut().zip(panel) {
                *sum += x * w;
            }
        }
        for (to, sum) in c[row * tile.c_stride..].iter_mut().zip(sums) {
            *to = if tile.add { *to + sum } else { sum };
        }
    }
}

/// The kernel of AVX-VNNI by the AVX-512VL coding of its instruction; false where the machine has none.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn multiply_by_half_vectors(tile: Tile, a: &[f32], b: &[f32], c: &mut [f32]) -> bool {
    let found = is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vnni");
    assert!(a.len() >= (tile.rows - 1) * STRIDE + tile.depth && b.len() >= tile.depth * PANEL);
    assert!(c.len() >= (tile.rows - 1) * tile.c_stride + PANEL);
    if found && is_x86_feature_detected!("avx2") {
        // SAFETY: the bounds and the instructions were just checked.
        unsafe { x86::avx_vnni_vl(tile, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), None) };
        return true;
    }
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{arch::x86_64::*, mem::transmute};

    use super::{PANEL, STRIDE, Tile};

    /// Kernels of one instruction set: `$rows` for a fixed number of rows and two vectors of columns,
    /// `$all` for any number of rows and the whole panel. Columns are the outer loop: their weights stay in
    /// the nearest cache while rows pass by.
    macro_rules! kernels {
        ($all:ident, $rows:ident, $feature:literal, $vector:ty, $lanes:literal, $zero:ident, $load:ident,
         $spread:ident, $fma:ident, $add:ident, $store:ident, $($count:literal)*) => {
            /// # Safety
            /// `a` has `depth` words in each of `rows` rows at stride `STRIDE`, `b` has `depth × 32`, `c` has
            /// 32 in each of `rows` rows at stride `c_stride` and is not aliased; the machine has the
            /// instructions.
            pub(super) unsafe fn $all(
                tile: Tile,
                a: *const f32,
                b: *const f32,
                c: *mut f32,
                next: Option<*const f32>,
            ) {
                const MOST: usize = [$($count),*].len();
                // Floats of the coming panel that one call fetches: a cache line for four inputs.
                let fetched = PANEL / (2 * $lanes) * tile.depth * 4;
                for column in (0..PANEL).step_by(2 * $lanes) {
                    for (i, rows) in tile.split(MOST) {
                        let part = Tile { rows: rows.len(), ..tile };
                        let ahead = next.filter(|_| i * fetched < tile.depth * PANEL);
                        // SAFETY: these rows and two vectors of columns lie within what the caller promises;
                        // the caller promises the instructions; `next` is computed without `add` and not read.
                        unsafe {
                            let (b, a) = (b.add(column), a.add(rows.start * STRIDE));
                            let c = c.add(rows.start * tile.c_stride + column);
                            let next = ahead.map_or(b, |next| next.wrapping_add(i * fetched + column));
                            match rows.len() {
                                $($count => $rows::<$count>(part, a, b, c, next),)*
                                _ => unreachable!("tiles have at most MOST rows"),
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As for the whole panel, for `ROWS` rows and two vectors of columns.
            #[target_feature(enable = $feature)]
            unsafe fn $rows<const ROWS: usize>(
                tile: Tile,
                a: *const f32,
                b: *const f32,
                c: *mut f32,
                next: *const f32,
            ) {
                let mut sums = [[$zero(); 2]; ROWS];
                let (mut a, mut b, mut next) = (a, b, next);
                let step = |a: *const f32, b: *const f32, sums: &mut [[$vector; 2]; ROWS]| {
                    // SAFETY: both pointers are at an input below `depth`, where the caller promises ROWS rows
                    // of `a` and two vectors of `b`.
                    unsafe {
                        let (low, high) = ($load(b), $load(b.add($lanes)));
                        for (row, sum) in sums.iter_mut().enumerate() {
                            let x = $spread(*a.add(row * STRIDE));
                            sum[0] = $fma(x, low, sum[0]);
                            sum[1] = $fma(x, high, sum[1]);
                        }
                    }
                };
                for _ in 0..tile.depth / 4 {
                    _mm_prefetch::<_MM_HINT_T1>(next.cast());
                    next = next.wrapping_add(PANEL / (2 * $lanes) * 16);
                    // SAFETY: `depth / 4` rounds of four inputs lie below `depth`; the last step ends at most one
                    // past the end.
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
                    // SAFETY: the rest of `depth` is stepped through once, so this ends at most one past the end.
                    unsafe {
                        a = a.add(1);
                        b = b.add(PANEL);
                    }
                }
                for (row, [mut low, mut high]) in sums.into_iter().enumerate() {
                    // SAFETY: the caller promises two vectors of `c` in each of ROWS rows.
                    unsafe {
                        let to = c.add(row * tile.c_stride);
                        if tile.add {
                            low = $add($load(to), low);
                            high = $add($load(to.add($lanes)), high);
                        }
                        $store(to, low);
                        $store(to.add($lanes), high);
                    }
                }
            }
        };
    }

    kernels! {
        avx512, rows512, "avx512f", __m512, 16, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_set1_ps,
        _mm512_fmadd_ps, _mm512_add_ps, _mm512_storeu_ps, 1 2 3 4 5 6 7 8 9 10 11 12 13 14
    }
    kernels! {
        avx2, rows256, "avx2,fma", __m256, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_set1_ps,
        _mm256_fmadd_ps, _mm256_add_ps, _mm256_storeu_ps, 1 2 3 4 5 6
    }

    /// Two products of bf16 added to every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn dot_bf16(x: __m512, w: __m512, sum: __m512) -> __m512 {
        // SAFETY: vectors of 64 bytes, any bits of which are numbers of either type.
        let [x, w] =
            unsafe { [transmute::<__m512, __m512bh>(x), transmute::<__m512, __m512bh>(w)] };
        _mm512_dpbf16_ps(sum, x, w)
    }

    /// Four products of a byte without and a byte with sign added to every lane, as integers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn dot_int8(x: __m512, w: __m512, sum: __m512) -> __m512 {
        let [x, w, sum] = [x, w, sum].map(|v| _mm512_castps_si512(v));
        _mm512_castsi512_ps(_mm512_dpbusd_epi32(sum, x, w))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add_int32(a: __m512, b: __m512) -> __m512 {
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)))
    }

    #[inline]
    #[target_feature(enable = "avx2,avxvnni")]
    fn half_dot_int8(x: __m256, w: __m256, sum: __m256) -> __m256 {
        let [x, w, sum] = [x, w, sum].map(|v| _mm256_castps_si256(v));
        _mm256_castsi256_ps(_mm256_dpbusd_avx_epi32(sum, x, w))
    }

    /// The same instruction in its AVX-512VL coding, so that machines without AVX-VNNI can test the kernel.
    #[cfg(test)]
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl,avx512vnni")]
    fn half_dot_int8_vl(x: __m256, w: __m256, sum: __m256) -> __m256 {
        let [x, w, sum] = [x, w, sum].map(|v| _mm256_castps_si256(v));
        _mm256_castsi256_ps(_mm256_dpbusd_epi32(sum, x, w))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn half_add_int32(a: __m256, b: __m256) -> __m256 {
        _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)))
    }

    kernels! {
        avx512_bf16, rows512_bf16, "avx512f,avx512bf16", __m512, 16, _mm512_setzero_ps, _mm512_loadu_ps,
        _mm512_set1_ps, dot_bf16, _mm512_add_ps, _mm512_storeu_ps, 1 2 3 4 5 6 7 8 9 10 11 12 13 14
    }
    kernels! {
        avx512_vnni, rows512_vnni, "avx512f,avx512vnni", __m512, 16, _mm512_setzero_ps, _mm512_loadu_ps,
        _mm512_set1_ps, dot_int8, add_int32, _mm512_storeu_ps, 1 2 3 4 5 6 7 8 9 10 11 12 13 14
    }
    kernels! {
        avx_vnni, rows256_vnni, "avx2,avxvnni", __m256, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_set1_ps,
        half_dot_int8, half_add_int32, _mm256_storeu_ps, 1 2 3 4 5 6
    }
    #[cfg(test)]
    kernels! {
        avx_vnni_vl, rows256_vnni_vl, "avx2,avx512f,avx512vl,avx512vnni", __m256, 8, _mm256_setzero_ps,
        _mm256_loadu_ps, _mm256_set1_ps, half_dot_int8_vl, half_add_int32, _mm256_storeu_ps, 1 2 3 4 5 6
    }
}
