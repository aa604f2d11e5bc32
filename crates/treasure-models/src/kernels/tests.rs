//! Kernels against plain f64 sums on odd sizes, and bit for bit against themselves in other company.

use std::ops::Range;

use proptest::prelude::*;

use super::{rows::Rows as _, tile::DEPTH, *};
use crate::{
    exec::{Precision, RowQuestion, Storage},
    stack::{Activation, Matrix, Rotary, Visibility},
};

/// Deterministic numbers in (−1, 1).
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

mod precision;

fn linear(seed: u64, outputs: usize, inputs: usize, storage: Storage) -> Linear {
    linear_in(seed, outputs, inputs, storage, Precision::F32)
}

fn linear_in(
    seed: u64,
    outputs: usize,
    inputs: usize,
    storage: Storage,
    precision: Precision,
) -> Linear {
    let scale = 1.0 / (inputs as f32).sqrt();
    let weights: Vec<f32> = noise(seed, outputs * inputs).iter().map(|w| w * scale).collect();
    let matrix = Matrix::from_values(outputs, inputs, weights);
    Linear::pack(matrix.with_bias(noise(seed + 1, outputs)), storage, precision).unwrap()
}

fn oracle(linear: &Linear, x: &[f32]) -> Vec<f64> {
    let mut row = vec![0.0; linear.inputs()];
    (0..linear.outputs())
        .map(|r| {
            linear.unpack_row(r, &mut row);
            let bias = linear.bias().map_or(0.0, |b| f64::from(b[r]));
            row.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>() + bias
        })
        .collect()
}

fn apply(isa: Isa, linear: &Linear, x: &[f32]) -> Vec<f32> {
    let (inputs, outputs) = (linear.inputs(), linear.outputs());
    let rows = x.len() / inputs;
    let mut y = vec![0.0; rows * outputs];
    let load = |row: usize, to: &mut [f32]| to.copy_from_slice(&x[row * inputs..][..inputs]);
    project(isa, rows, load, &mut [(linear, &mut y[..])]);
    y
}

#[test]
fn products_agree_with_f64_for_odd_shapes_and_every_storage() {
    for isa in Isa::available() {
        for (rows, inputs, outputs) in
            [(1, 1, 1), (3, 7, 33), (15, 385, 31), (29, 800, 65), (131, 64, 40)]
        {
            for storage in [Storage::F32, Storage::F16, Storage::Bf16, Storage::Int8] {
                let linear = linear(rows as u64, outputs, inputs, storage);
                let x = noise(5, rows * inputs);
                let y = apply(isa, &linear, &x);
                for r in 0..rows {
                    for (c, want) in oracle(&linear, &x[r * inputs..][..inputs]).iter().enumerate()
                    {
                        let got = f64::from(y[r * outputs + c]);
                        assert!(
                            (got - want).abs() < 3e-6,
                            "{isa:?} {storage:?} {rows}×{inputs}×{outputs}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn half_precision_weights_widen_exactly_for_every_bit_pattern() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for isa in Isa::available() {
        let mut wide = vec![0.0f32; all.len()];
        widen::widen_f16(isa, &all, &mut wide);
        for (bits, x) in all.iter().zip(&wide) {
            let want = half::f16::from_bits(*bits).to_f32();
            assert!(
                x.to_bits() == want.to_bits() || x.is_nan() && want.is_nan(),
                "{isa:?} {bits:#x}"
            );
        }
        widen::widen_bf16(isa, &all, &mut wide);
        for (bits, x) in all.iter().zip(&wide) {
            assert_eq!(x.to_bits(), u32::from(*bits) << 16);
        }
    }
}

#[test]
fn a_row_of_a_product_is_bitwise_the_same_alone_in_any_batch_and_at_any_thread_count() {
    let (inputs, outputs) = (500, 1000);
    let linear = linear(3, outputs, inputs, Storage::F32);
    let x = noise(4, 300 * inputs);
    for isa in Isa::available() {
        let all = apply(isa, &linear, &x);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for rows in [1, 2, 13, 14, 15, 57, 300] {
                let part = pool.install(|| apply(isa, &linear, &x[..rows * inputs]));
                assert!(part == all[..rows * outputs], "{isa:?} {rows} rows, {threads} threads");
            }
        }
        let last = apply(isa, &linear, &x[299 * inputs..]);
        assert!(last == all[299 * outputs..]);
    }
}

#[test]
fn packed_rows_multiply_to_the_same_bits_as_rows_one_after_another() {
    let (rows, inputs, middle, outputs) = (300, 20, DEPTH + 40, 70);
    let (up, down) =
        (linear(3, middle, inputs, Storage::F32), linear(4, outputs, middle, Storage::F32));
    let x = noise(5, rows * inputs);
    let from = Plain { values: &x, width: inputs };
    for isa in Isa::available() {
        let relu = Activation::Relu;
        let mut plain = vec![0.0; rows * middle];
        project_activated(isa, rows, from, None, &up, relu, Lie::Rows, &mut plain);
        let mut packed = vec![f32::NAN; Packed::words(rows, middle, Precision::F32)];
        project_activated(isa, rows, from, None, &up, relu, Lie::Packed, &mut packed);
        let (mut a, mut b) = (vec![0.0; rows * outputs], vec![0.0; rows * outputs]);
        project(isa, rows, Plain { values: &plain, width: middle }, &mut [(&down, &mut a[..])]);
        project(isa, rows, Packed::new(&packed, rows), &mut [(&down, &mut b[..])]);
        assert!(a == b, "{isa:?}");
        let mut row = vec![0.0; middle];
        Packed::new(&packed, rows).load(7, &mut row);
        assert!(row == plain[7 * middle..][..middle]);
    }
}

#[test]
fn gated_and_residual_products_agree_with_f64() {
    let (rows, inputs, outputs) = if cfg!(miri) { (5, 3, 40) } else { (17, 40, 70) };
    let (gate, up) =
        (linear(1, outputs, inputs, Storage::F32), linear(8, outputs, inputs, Storage::F32));
    let x = noise(2, rows * inputs);
    let load = |row: usize, to: &mut [f32]| to.copy_from_slice(&x[row * inputs..][..inputs]);
    for isa in Isa::available() {
        let mut gated = vec![0.0; rows * outputs];
        let silu = Activation::Silu;
        project_activated(isa, rows, load, Some(&gate), &up, silu, Lie::Rows, &mut gated);
        let mut added = vec![1.0; rows * outputs];
        let factors = noise(9, outputs);
        project_added(
            isa,
            rows,
            load,
            &up,
            |row| (row % 2 == 1).then_some(&factors[..]),
            &mut added,
        );
        for r in 0..rows {
            let (g, u) = (
                oracle(&gate, &x[r * inputs..][..inputs]),
                oracle(&up, &x[r * inputs..][..inputs]),
            );
            for c in 0..outputs {
                let want = g[c] / (1.0 + (-g[c]).exp()) * u[c];
                assert!((f64::from(gated[r * outputs + c]) - want).abs() < 2e-6);
                let want = 1.0 + u[c] * if r % 2 == 1 { f64::from(factors[c]) } else { 1.0 };
                assert!((f64::from(added[r * outputs + c]) - want).abs() < 2e-6);
            }
        }
    }
}

struct Case {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    rotary: Option<Rotary>,
    visibility: Visibility,
    precision: Precision,
}

impl Case {
    fn new(
        heads: usize,
        kv_heads: usize,
        head_dim: usize,
        rows: usize,
        visibility: Visibility,
    ) -> Self {
        let q = noise(11, rows * heads * head_dim).iter().map(|x| 3.0 * x).collect();
        let (k, v) = (noise(12, rows * kv_heads * head_dim), noise(13, rows * kv_heads * head_dim));
        let rotary = head_dim.is_multiple_of(2).then(|| Rotary::new(head_dim, 100.0));
        let precision = Precision::F32;
        Self { heads, kv_heads, head_dim, q, k, v, rotary, visibility, precision }
    }

    fn run(
        &self,
        isa: Isa,
        query_rows: &[usize],
        segments: &[(usize, Vec<Range<usize>>)],
        positions: &[usize],
    ) -> Vec<f32> {
        let width = self.heads * self.head_dim;
        let q: Vec<f32> =
            query_rows.iter().flat_map(|r| &self.q[r * width..][..width]).copied().collect();
        let table = self.rotary.as_ref().map(|r| r.table(2000));
        let mut to = vec![f32::NAN; q.len()];
        let inputs = Inputs {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            q: &q,
            k: &self.k,
            v: &self.v,
            positions,
            rotary: table.as_deref(),
            visibility: self.visibility,
            precision: self.precision,
        };
        let mut all = Segments::default();
        segments.iter().for_each(|(queries, keys)| all.push(*queries, keys.clone()));
        attend(isa, inputs, &all, &mut to);
        to
    }

    fn whole(&self, isa: Isa, rows: Range<usize>) -> Vec<f32> {
        let list: Vec<usize> = rows.clone().collect();
        let positions: Vec<usize> = (0..rows.len()).collect();
        self.run(isa, &list, &[(rows.len(), vec![rows])], &positions)
    }

    fn oracle(&self, query: usize, head: usize, len: usize) -> Vec<f64> {
        let d = self.head_dim;
        let kv = head / (self.heads / self.kv_heads);
        let rotated = |row: &[f32], position: usize| -> Vec<f64> {
            let mut x: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
            if let Some(rotary) = &self.rotary {
                let table = rotary.table(2000);
                let (cos, sin) = table.at(position);
                for i in 0..d / 2 {
                    let (a, b) = (x[i], x[i + d / 2]);
                    let (c, s) = (f64::from(cos[i]), f64::from(sin[i]));
                    (x[i], x[i + d / 2]) = (a * c - b * s, b * c + a * s);
                }
            }
            x
        };
        let q = rotated(&self.q[(query * self.heads + head) * d..][..d], query);
        let seen = |j: usize| match self.visibility {
            Visibility::Full => true,
            Visibility::Causal => j <= query,
            Visibility::Window(w) => j.abs_diff(query) <= w,
        };
        let (mut sum, mut out) = (0.0, vec![0.0; d]);
        for j in (0..len).filter(|&j| seen(j)) {
            let k = rotated(&self.k[(j * self.kv_heads + kv) * d..][..d], j);
            let score = q.iter().zip(&k).map(|(a, b)| a * b).sum::<f64>() / (d as f64).sqrt();
            sum += score.exp();
            let v = &self.v[(j * self.kv_heads + kv) * d..][..d];
            out.iter_mut().zip(v).for_each(|(o, &v)| *o += score.exp() * f64::from(v));
        }
        out.iter().map(|o| o / sum).collect()
    }
}

#[test]
fn attention_agrees_with_f64_for_every_visibility_and_odd_sizes() {
    let all = [Visibility::Full, Visibility::Causal, Visibility::Window(0), Visibility::Window(5)];
    let sizes: &[_] = match cfg!(miri) {
        true => &[(1, 1, 1, 1), (4, 2, 3, 9)],
        false => &[(1, 1, 1, 1), (4, 2, 12, 37), (3, 1, 40, 16), (2, 2, 64, 450)],
    };
    for isa in Isa::available() {
        for &(heads, kv_heads, head_dim, len) in sizes {
            for visibility in all {
                let case = Case::new(heads, kv_heads, head_dim, len, visibility);
                let got = case.whole(isa, 0..len);
                for query in (0..len).step_by(1 + len / 40) {
                    for head in 0..heads {
                        let want = case.oracle(query, head, len);
                        for (i, want) in want.iter().enumerate() {
                            let got = f64::from(got[(query * heads + head) * head_dim + i]);
                            assert!(
                                (got - want).abs() < 2e-6,
                                "{isa:?} {visibility:?} {head_dim} {len}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_query_is_bitwise_the_same_alone_in_a_ragged_batch_and_on_scattered_keys() {
    query_is_invariant(Precision::F32, 24);
}

fn query_is_invariant(precision: Precision, head_dim: usize) {
    let heads = 2;
    let case = |rows: usize, visibility: Visibility| Case {
        precision,
        ..Case::new(heads, 1, head_dim, rows, visibility)
    };
    for isa in Isa::available() {
        for visibility in [Visibility::Full, Visibility::Causal, Visibility::Window(7)] {
            let case = case(500, visibility);
            let width = heads * head_dim;
            let alone = case.whole(isa, 60..500);
            // One query only, then two sequences in one batch.
            for query in [0usize, 1, 13, 200, 439] {
                let keys = std::iter::once(60..500).collect();
                let got = case.run(isa, &[60 + query], &[(1, keys)], &[query]);
                assert!(got == alone[query * width..][..width], "{isa:?} {visibility:?} {query}");
            }
            let rows: Vec<usize> = (0..500).collect();
            let positions: Vec<usize> = (0..60).chain(0..440).collect();
            let both = [(0..60), (60..500)].map(|r| (r.len(), vec![r]));
            assert!(case.run(isa, &rows, &both, &positions)[60 * width..] == alone);
        }
        // A prefix computed elsewhere: causal queries see the same keys in two pieces.
        let case = case(100, Visibility::Causal);
        let alone = case.whole(isa, 0..100);
        let split = (30, vec![0..70, 70..100]);
        let rows: Vec<usize> = (70..100).collect();
        let got = case.run(isa, &rows, &[split], &rows);
        assert!(got == alone[70 * heads * head_dim..]);
    }
}

fn full_logits(isa: Isa, decoder: &Linear, row: &[f32], banned: &[u32]) -> Vec<f32> {
    let mut logits = apply(isa, decoder, row);
    banned.iter().for_each(|&b| logits[b as usize] = f32::NEG_INFINITY);
    logits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn answers_about_logits_equal_answers_from_the_whole_row(
        seed in 0u64..1000,
        outputs in 1usize..300,
        inputs in 1usize..50,
        k in 1usize..12,
        u in 0.001f64..0.999,
        ban_every in 2usize..9,
        coarse in any::<bool>(),
    ) {
        let mut decoder = linear(seed, outputs, inputs, Storage::F32);
        if coarse {
            // Few distinct weights: many ties.
            let weights = noise(seed, outputs * inputs).iter().map(|x| x.round()).collect::<Vec<_>>();
            let matrix = Matrix::from_values(outputs, inputs, weights);
            decoder = Linear::pack(matrix, Storage::F32, Precision::F32).unwrap();
        }
        let hidden: Vec<f32> = noise(seed + 7, 3 * inputs).iter().map(|x| 4.0 * x).collect();
        let banned: Vec<u32> = (0..outputs as u32).filter(|i| *i as usize % ban_every == 1).collect();
        let wanted: Vec<u32> = (0..outputs as u32).step_by(17).collect();
        for isa in Isa::available() {
            let ask = |row| RowQuestion {
                row, banned: &banned, best: true, top: k, normaliser: true, draws: std::slice::from_ref(&u),
                tokens: &wanted,
            };
            let answers = answer(isa, &decoder, &hidden, &[ask(2), ask(0)]);
            for (row, answer) in [2usize, 0].into_iter().zip(answers) {
                let logits = full_logits(isa, &decoder, &hidden[row * inputs..][..inputs], &banned);
                let mut order: Vec<usize> = (0..outputs).filter(|&i| logits[i] > f32::NEG_INFINITY).collect();
                order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
                let expect: Vec<(u32, f32)> = order.iter().take(k).map(|&i| (i as u32, logits[i])).collect();
                prop_assert_eq!(&answer.top, &expect);
                prop_assert_eq!(answer.best, expect.first().copied());
                let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
                prop_assert!((answer.normaliser.unwrap() - total.ln()).abs() < 1e-6);
                for (token, logit) in wanted.iter().zip(&answer.logits) {
                    prop_assert_eq!(*logit, logits[*token as usize]);
                }
                let (mut below, mut drawn) = (0.0, outputs);
                for (i, &x) in logits.iter().enumerate() {
                    let next = below + f64::from(x).exp() / total;
                    // Within rounding of a boundary either neighbour is right.
                    if (next - u).abs() < 1e-6 { drawn = answer.draws[0] as usize; break; }
                    if next > u { drawn = i; break; }
                    below = next;
                }
                prop_assert_eq!(answer.draws[0] as usize, drawn);
            }
        }
    }
}

#[test]
fn no_token_is_named_when_every_token_is_banned() {
    let decoder = linear(1, 40, 8, Storage::F32);
    let banned: Vec<u32> = (0..40).collect();
    let question = RowQuestion {
        banned: &banned,
        best: true,
        top: 3,
        draws: &[0.5],
        tokens: &[4],
        ..Default::default()
    };
    let answers = answer(Isa::best(), &decoder, &noise(2, 8), &[question]);
    assert_eq!((answers[0].best, answers[0].top.len(), answers[0].draws.len()), (None, 0, 0));
    assert_eq!(answers[0].logits, [f32::NEG_INFINITY]);
}
