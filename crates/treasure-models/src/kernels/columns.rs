//! Rows of words to columns: how a block of a panel is made of rows that lie in a file.

#[cfg(target_arch = "x86_64")]
use super::isa::Set;
use super::{Isa, linear::PANEL};

/// `to[k][lane] = lines[lane][k]` for the first `width` lanes, in words of four bytes of any kind.
pub(super) fn transpose(isa: Isa, lines: &[&[u8]; PANEL], width: usize, to: &mut [f32]) {
    let (to, _) = to.as_chunks_mut::<PANEL>();
    assert!(lines.iter().all(|line| line.len() >= 4 * to.len()));
    let done = match isa.set() {
        // SAFETY: this `Isa` exists, so detection found AVX-512F; every line was just seen to hold a word a row.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 | Set::Amx if width == PANEL => unsafe { x86::transpose(lines, to) },
        _ => 0,
    };
    const SIDE: usize = 8;
    for (block, to) in to[done..].chunks_mut(SIDE).enumerate() {
        for (lane, line) in lines.iter().enumerate().take(width) {
            let (words, _) = line[4 * (done + block * SIDE)..].as_chunks::<4>();
            for (to, word) in to.iter_mut().zip(words) {
                to[lane] = f32::from_bits(u32::from_ne_bytes(*word));
            }
        }
    }
}

/// Asks for bytes that are wanted soon: pieces of rows are too short for the machine to foresee the next.
pub(super) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::PANEL;

    /// Words of a vector.
    const SIDE: usize = 16;

    /// Turns whole squares from the front and returns how many rows that were.
    ///
    /// # Safety
    /// Every line holds as many words as there are rows.
    #[target_feature(enable = "avx512f")]
    pub(super) fn transpose(lines: &[&[u8]; PANEL], to: &mut [[f32; PANEL]]) -> usize {
        let whole = to.len() / SIDE * SIDE;
        for first in (0..whole).step_by(SIDE) {
            for half in (0..PANEL).step_by(SIDE) {
                let from = |lane: usize| lines[half + lane][4 * first..].as_ptr().cast();
                // SAFETY: a line holds sixteen words from `first` on, as the caller says; the load is unaligned.
                let rows = std::array::from_fn(|lane| unsafe { _mm512_loadu_si512(from(lane)) });
                for (to, column) in to[first..].iter_mut().zip(square(rows)) {
                    // SAFETY: sixteen words of a row from `half` on; the store is the unaligned one.
                    unsafe { _mm512_storeu_si512(to[half..].as_mut_ptr().cast(), column) };
                }
            }
        }
        whole
    }

    /// A square of words: pairs of words, then of pairs, then quarters of vectors change places.
    #[target_feature(enable = "avx512f")]
    fn square(rows: [__m512i; SIDE]) -> [__m512i; SIDE] {
        let (mut a, mut b) = (rows, rows);
        for i in (0..SIDE).step_by(2) {
            a[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
            a[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
        }
        for i in (0..SIDE).step_by(4) {
            b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
            b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
            b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
            b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
        }
        for i in (0..SIDE).step_by(8) {
            for j in i..i + 4 {
                a[j] = _mm512_shuffle_i32x4::<0x88>(b[j], b[j + 4]);
                a[j + 4] = _mm512_shuffle_i32x4::<0xdd>(b[j], b[j + 4]);
            }
        }
        for j in 0..8 {
            b[j] = _mm512_shuffle_i32x4::<0x88>(a[j], a[j + 8]);
            b[j + 8] = _mm512_shuffle_i32x4::<0xdd>(a[j], a[j + 8]);
        }
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_places_whatever_the_set_the_depth_and_the_width() {
        for isa in Isa::available() {
            for (depth, width) in [(0, 32), (1, 32), (16, 32), (47, 32), (384, 32), (48, 7)] {
                let word = |lane: usize, k: usize| (lane * 1000 + k) as u32;
                let lines: Vec<Vec<u8>> = (0..PANEL)
                    .map(|lane| (0..depth).flat_map(|k| word(lane, k).to_ne_bytes()).collect())
                    .collect();
                let mut to = vec![0.0; depth * PANEL];
                transpose(isa, &std::array::from_fn(|lane| &lines[lane][..]), width, &mut to);
                for (at, x) in to.iter().enumerate() {
                    let (k, lane) = (at / PANEL, at % PANEL);
                    let wanted = if lane < width { word(lane, k) } else { 0 };
                    assert_eq!(x.to_bits(), wanted, "{isa:?} {depth} × {width} at {k}, {lane}");
                }
            }
        }
    }
}
