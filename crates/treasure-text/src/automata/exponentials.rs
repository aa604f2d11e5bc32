//! Exponentials of a row, several at a time: within two units in the last place, and the same bits on every
//! machine. Wider registers are used where they are; products and sums stay apart everywhere, so that no bit
//! depends on them.

/// Scores that are taken at once.
const LANES: usize = 8;

/// Scores between two questions to the processor.
const BLOCK: usize = 256;

/// Below it, a power of two in one piece would leave the normal numbers.
const LEAST: f64 = -700.0;

/// The largest of a row's scores; −∞ if there is none.
pub(super) fn largest(row: &[f32]) -> f32 {
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; 2 * LANES];
    let chunks = row.chunks_exact(2 * LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, &score)| *lane = greater(*lane, score));
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, greater)
}

/// Calls with the `exp(score − largest)` of every score, in order; scores are at most `largest`.
pub(super) fn each(row: &[f32], largest: f64, mut call: impl FnMut(usize, f64)) {
    let mut out = [0.0; BLOCK];
    for (first, scores) in (0..).step_by(BLOCK).zip(row.chunks(BLOCK)) {
        block(scores, largest, &mut out);
        out.iter().take(scores.len()).enumerate().for_each(|(at, &exp)| call(first + at, exp));
    }
}

/// The exponentials of at most [`BLOCK`] scores.
fn block(scores: &[f32], largest: f64, out: &mut [f64; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[target_feature(enable = "avx2")]
        fn wide(scores: &[f32], largest: f64, out: &mut [f64; BLOCK]) {
            plain(scores, largest, out);
        }
        // SAFETY: the processor was asked at the head of this branch.
        return unsafe { wide(scores, largest, out) };
    }
    plain(scores, largest, out);
}

#[inline(always)]
fn plain(scores: &[f32], largest: f64, out: &mut [f64; BLOCK]) {
    for (out, chunk) in out.chunks_exact_mut(LANES).zip(scores.chunks(LANES)) {
        let mut x = [0.0; LANES];
        x.iter_mut().zip(chunk).for_each(|(x, &score)| *x = f64::from(score) - largest);
        let exps = match x.iter().any(|&x| x < LEAST) {
            true => x.map(f64::exp),
            false => exps(x),
        };
        out.copy_from_slice(&exps);
    }
}

/// Cody and Waite: x = k ln 2 + r with |r| ≤ ln 2 / 2, then Taylor's polynomial of degree 13, whose remainder is
/// below 2⁻⁵⁷.
#[inline(always)]
fn exps(x: [f64; LANES]) -> [f64; LANES] {
    // Adding it leaves the nearest whole number in the lowest bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    let mut out = [0.0; LANES];
    for (out, x) in out.iter_mut().zip(x) {
        let k = x * std::f64::consts::LOG2_E + ROUND;
        let whole = k - ROUND;
        let r = (x - whole * LN_2[0]) - whole * LN_2[1];
        let mut sum = 1.0 / 6_227_020_800.0;
        for factor in [
            1.0 / 479_001_600.0,
            1.0 / 39_916_800.0,
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ] {
            sum = sum * r + factor;
        }
        *out = f64::from_bits(sum.to_bits().wrapping_add(k.to_bits() << 52));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_the_librarys_within_two_units_in_the_last_place() {
        let mut row: Vec<f32> = (0..40_000).map(|i| -(i as f32) * 0.0187).collect();
        row.extend([f32::NEG_INFINITY, -0.0, 0.0, -1e-30, -103.97, f32::MIN]);
        for largest in [0.0, 0.25] {
            let mut seen = 0;
            each(&row, largest, |at, exp| {
                let truth = (f64::from(row[at]) - largest).exp();
                assert!((exp - truth).abs() <= truth * 4.5e-16, "{}: {exp} {truth}", row[at]);
                assert_eq!(at, seen);
                seen += 1;
            });
            assert_eq!(seen, row.len());
        }
    }

    #[test]
    fn wide_registers_change_no_bit() {
        let scores: Vec<f32> = (0..BLOCK).map(|i| -(i as f32).sqrt() * 3.7).collect();
        let (mut one, mut other) = ([0.0; BLOCK], [0.0; BLOCK]);
        block(&scores, 0.125, &mut one);
        plain(&scores, 0.125, &mut other);
        assert_eq!(one.map(f64::to_bits), other.map(f64::to_bits));
    }

    #[test]
    fn the_largest_is_found_wherever_it_stands() {
        for len in 0..40 {
            for best in 0..len {
                let row: Vec<f32> = (0..len).map(|i| if i == best { -1.0 } else { -2.0 }).collect();
                assert_eq!(largest(&row), -1.0);
            }
        }
        assert_eq!(largest(&[]), f32::NEG_INFINITY);
    }
}
