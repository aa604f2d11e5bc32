//! Products of bf16 and int8: instructions against their definition in plain Rust, rows against themselves in
//! other company, results against f64.

use super::{
    super::{
        tile::{Kernel, STRIDE, Tile},
        words::{narrow, narrow_in_place, quantise, to_bf16},
    },
    *,
};

const NARROW: [Precision; 2] = [Precision::Bf16, Precision::Int8];

/// Words of any bits, many of them subnormal, huge, or of opposite signs.
fn wild(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len)
        .map(|_| {
            let number = |bits: u64| match bits >> 60 {
                // Around the smallest normal numbers, whose products are subnormal or nothing.
                0..4 => (bits as u32 & 0x807f_ffff) | 0x2000_0000,
                4..6 => (bits as u32 & 0x807f_ffff) | 0x0080_0000,
                6 => bits as u32 & 0x8000_0000,
                _ => (bits as u32 & 0x80ff_ffff) | 0x3f00_0000,
            };
            let half = |bits: u64| u32::from(to_bf16(f32::from_bits(number(bits))));
            f32::from_bits(half(next()) | half(next()) << 16)
        })
        .collect()
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}

/// The low and the high half of a word of bf16.
fn parts(x: f32) -> (f32, f32) {
    let bits = x.to_bits();
    (flush(f32::from_bits(bits << 16)), flush(f32::from_bits(bits & 0xffff_0000)))
}

/// One element of a product of bf16 as the definition has it, written again and without vectors.
fn dot(a: &[f32], b: impl Iterator<Item = f32>) -> f32 {
    a.iter().zip(b).fold(0.0, |sum: f32, (&a, b)| {
        let ((a0, a1), (b0, b1)) = (parts(a), parts(b));
        flush(a0.mul_add(b0, flush(a1.mul_add(b1, sum))))
    })
}

/// The same as tiles of AMX have it, from `start` on.
fn dot_on_tiles(start: f32, a: &[f32], b: &[f32]) -> f32 {
    a.chunks(16).zip(b.chunks(16)).fold(flush(start), |sum, (a, b)| {
        let along = |half: fn((f32, f32)) -> f32| {
            let both = a.iter().zip(b).map(|(&a, &b)| (half(parts(a)), half(parts(b))));
            let sum = both.fold(0.0, |sum: f32, (a, b)| flush(a.mul_add(b, sum)));
            // The zeros behind an unfinished step make a plain zero of a negative one.
            if a.len() < 16 { sum + 0.0 } else { sum }
        };
        flush(sum + flush(along(|x| x.0) + along(|x| x.1)))
    })
}

/// Rows of `a` or `c` with what a kernel may touch behind them.
fn behind(rows: usize) -> usize {
    rows.next_multiple_of(16)
}

#[test]
fn a_tile_of_bf16_has_the_bits_of_its_definition_subnormal_numbers_included() {
    for isa in Isa::available() {
        for (rows, depth) in [(1, 1), (2, 7), (13, 64), (14, 384), (15, 33), (31, 5)] {
            let (a, b) =
                (wild(rows as u64, behind(rows) * STRIDE), wild(depth as u64 + 9, depth * 32));
            let start = noise(3, behind(rows) * 40);
            for add in [false, true] {
                let mut c = start.clone();
                let tile = Tile { rows, depth, c_stride: 40, add };
                Kernel::new(isa, Precision::Bf16).multiply(tile, &a, &b, &mut c, None);
                for (i, (got, start)) in c.iter().zip(&start).take(rows * 40).enumerate() {
                    let (row, column) = (i / 40, i % 40);
                    let want = if column < 32 {
                        let column = (0..depth).map(|k| b[k * 32 + column]);
                        let row = &a[row * STRIDE..][..depth];
                        if isa.has_tiles(Precision::Bf16) {
                            let start = if add { *start } else { 0.0 };
                            dot_on_tiles(start, row, &column.collect::<Vec<_>>())
                        } else {
                            let sum = dot(row, column);
                            if add { start + sum } else { sum }
                        }
                    } else {
                        *start
                    };
                    // Without a fused multiply-add, a product below the normal numbers is rounded by itself.
                    let near = isa.name() == "portable" && (got - want).abs() < 1e-36;
                    assert!(
                        got.to_bits() == want.to_bits() || near,
                        "{isa:?} {rows} × {depth}, row {row} column {column}: {got:e}, not {want:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_tile_of_int8_has_the_sums_of_whole_numbers() {
    for isa in Isa::available() {
        for (rows, depth) in [(1, 1), (6, 7), (13, 64), (14, 384), (15, 33), (31, 5)] {
            let bytes = |seed: u64, words: usize| -> Vec<f32> {
                noise(seed, words)
                    .iter()
                    .map(|x| f32::from_bits(x.to_bits().rotate_left(9) ^ 0x5a))
                    .collect()
            };
            let (a, b) = (bytes(1 + rows as u64, behind(rows) * STRIDE), bytes(77, depth * 32));
            let mut c = vec![f32::from_bits(1000); behind(rows) * 32];
            for turn in 1..=2 {
                let tile = Tile { rows, depth, c_stride: 32, add: true };
                Kernel::new(isa, Precision::Int8).multiply(tile, &a, &b, &mut c, None);
                for (i, got) in c.iter().take(rows * 32).enumerate() {
                    let (row, column) = (i / 32, i % 32);
                    let sum: i64 = (0..depth)
                        .flat_map(|k| {
                            let x = a[row * STRIDE + k].to_bits().to_le_bytes();
                            let w = b[k * 32 + column].to_bits().to_le_bytes();
                            (0..4).map(move |i| i64::from(x[i]) * i64::from(w[i].cast_signed()))
                        })
                        .sum();
                    assert_eq!(
                        i64::from(got.to_bits().cast_signed()),
                        1000 + turn * sum,
                        "{isa:?}"
                    );
                }
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_kernel_of_half_vectors_has_the_sums_of_whole_numbers() {
    for (rows, depth) in [(1, 3), (5, 64), (6, 384), (13, 33)] {
        let (a, b) = (wild(rows as u64, rows * STRIDE), wild(5, depth * 32));
        let tile = Tile { rows, depth, c_stride: 32, add: false };
        let (mut got, mut want) = (vec![1.0f32; rows * 32], vec![0.0f32; rows * 32]);
        for add in [false, true] {
            let tile = Tile { add, ..tile };
            if !tile::multiply_by_half_vectors(tile, &a, &b, &mut got) {
                return;
            }
            words::multiply_int8(Isa::best(), tile, &a, &b, &mut want);
            let bits = |c: &[f32]| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&got), bits(&want), "{rows} × {depth}");
        }
    }
}

#[test]
fn numbers_become_bf16_alike_on_every_set_and_nearest_even() {
    let mut values: Vec<f32> = (0..=u16::MAX)
        .flat_map(|high| {
            [0u32, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| u32::from(high) << 16 | low)
        })
        .map(f32::from_bits)
        .collect();
    values.truncate(values.len() / 32 * 32 + 5);
    for x in &values {
        let (got, nearest) = (to_bf16(*x), half::bf16::from_f32(*x));
        match x.is_subnormal() {
            true => assert_eq!(got, if x.is_sign_negative() { 0x8000 } else { 0 }),
            false if x.is_nan() => assert!(half::bf16::from_bits(got).is_nan()),
            false => assert_eq!(got, nearest.to_bits(), "{x:e}"),
        }
    }
    for isa in Isa::available() {
        let mut words = vec![0u16; values.len()];
        narrow(isa, &values, &mut words);
        for (x, got) in values.iter().zip(&words) {
            assert_eq!(*got, to_bf16(*x), "{isa:?} {x:e}");
        }
        let mut place = values[..77].to_vec();
        narrow_in_place(isa, &mut place);
        let place: &[u16] = bytemuck::cast_slice(&place[..39]);
        assert_eq!((&place[..77], place[77]), (&words[..77], 0));
    }
}

#[test]
fn a_quantised_row_is_off_by_at_most_half_a_step_and_hides_no_infinity() {
    let row = noise(4, 101);
    for isa in Isa::available() {
        let mut bytes = vec![0u8; row.len()];
        let scale = quantise(isa, &row, &mut bytes);
        for (x, byte) in row.iter().zip(&bytes) {
            assert!((x - scale * (f32::from(*byte) - 128.0)).abs() <= scale * 0.5001, "{isa:?}");
        }
        assert!(bytes.contains(&255) || bytes.contains(&1));
        let mut plain = vec![0u8; row.len()];
        assert_eq!(quantise(Isa::available()[0], &row, &mut plain), scale);
        assert_eq!(plain, bytes, "{isa:?}");
        for (bad, finite) in [(f32::NAN, false), (f32::NEG_INFINITY, false), (1e-40, true)] {
            let mut row = vec![0.0; 50];
            row[33] = bad;
            assert_eq!(quantise(isa, &row, &mut bytes[..50]).is_finite(), finite, "{isa:?} {bad}");
        }
    }
}

/// What a product of a precision stands for, in f64.
fn oracle_in(linear: &Linear, x: &[f32]) -> Vec<f64> {
    let rounded: Vec<f32> = match linear.precision() {
        Precision::F32 => x.to_vec(),
        Precision::Bf16 => x.iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect(),
        Precision::Int8 => {
            let scale = x.iter().fold(0.0f32, |a, x| a.max(x.abs())) / 127.0;
            x.iter().map(|x| (x / scale).round_ties_even() * scale).collect()
        }
    };
    oracle(linear, &rounded)
}

#[test]
fn products_agree_with_f64_for_odd_shapes_in_every_precision() {
    for isa in Isa::available() {
        for (rows, inputs, outputs) in
            [(1, 1, 1), (3, 7, 33), (15, 385, 31), (29, 801, 65), (131, 64, 40), (5, 1602, 3)]
        {
            for precision in NARROW {
                let linear = linear_in(rows as u64, outputs, inputs, Storage::F32, precision);
                let x = noise(5, rows * inputs);
                let y = apply(isa, &linear, &x);
                for (r, x) in x.chunks(inputs).enumerate() {
                    for (c, want) in oracle_in(&linear, x).iter().enumerate() {
                        let off = (f64::from(y[r * outputs + c]) - want).abs();
                        // A tie may round the other way in the oracle: one step of one input.
                        let bound = if precision == Precision::Int8 { 3e-3 } else { 5e-6 };
                        assert!(
                            off < bound,
                            "{isa:?} {precision} {rows}×{inputs}×{outputs}: {off:e}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_is_bitwise_the_same_alone_in_any_batch_and_at_any_thread_count_in_every_precision() {
    let (inputs, outputs) = (1000, 300);
    let x = noise(4, 120 * inputs);
    for precision in NARROW {
        let linear = linear_in(3, outputs, inputs, Storage::F32, precision);
        for isa in Isa::available() {
            let all = apply(isa, &linear, &x);
            for threads in [1, 5] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                for rows in [1, 2, 13, 15, 57, 120] {
                    let part = pool.install(|| apply(isa, &linear, &x[..rows * inputs]));
                    assert!(part == all[..rows * outputs], "{isa:?} {precision} {rows} rows");
                }
            }
            let last = apply(isa, &linear, &x[119 * inputs..]);
            assert!(last == all[119 * outputs..], "{isa:?} {precision}");
        }
    }
}

#[test]
fn int8_and_all_but_subnormal_bf16_products_of_vectors_have_the_same_bits_on_every_set() {
    let (inputs, outputs) = (500, 70);
    for (precision, rows) in NARROW.into_iter().flat_map(|p| [(p, 9), (p, 70)]) {
        let x = noise(6, rows * inputs);
        let linear = linear_in(3, outputs, inputs, Storage::F32, precision);
        let plain = apply(Isa::available()[0], &linear, &x);
        for isa in Isa::available() {
            // Tiles round sums of bf16 in other places.
            if precision == Precision::Int8 || !isa.has_tiles(precision) {
                assert!(apply(isa, &linear, &x) == plain, "{isa:?} {precision}");
            }
        }
    }
}

/// What runs on every machine, so that the definition is known to be a sum of products where there is no AMX.
#[test]
fn the_definition_of_bf16_on_tiles_is_a_sum_of_products_with_zeros_for_what_is_subnormal() {
    for (rows, depth) in [(1, 1), (3, 16), (2, 37), (5, 384)] {
        let small = |seed, len: usize| -> Vec<f32> {
            let values = noise(seed, 2 * len);
            let word = |pair: &[f32]| {
                let [low, high] = [pair[0], pair[1]].map(|x| u32::from(to_bf16(x)));
                f32::from_bits(low | high << 16)
            };
            values.chunks(2).map(word).collect()
        };
        let (a, b) = (small(2, rows * STRIDE), small(3, depth * 32));
        let start = noise(4, rows * 32);
        for add in [false, true] {
            let (tile, mut c) = (Tile { rows, depth, c_stride: 32, add }, start.clone());
            words::multiply_bf16_on_tiles(tile, &a, &b, &mut c);
            for (i, got) in c.iter().enumerate() {
                let products = (0..depth).map(|k| {
                    let (x, w) = (parts(a[i / 32 * STRIDE + k]), parts(b[k * 32 + i % 32]));
                    f64::from(x.0) * f64::from(w.0) + f64::from(x.1) * f64::from(w.1)
                });
                let first = if add { f64::from(start[i]) } else { 0.0 };
                let want = first + products.sum::<f64>();
                assert!((f64::from(*got) - want).abs() < 2e-5, "{rows} × {depth}: {got}, {want}");
            }
        }
        let (a, b) = (wild(6, rows * STRIDE), wild(7, depth * 32));
        let mut c = start.clone();
        words::multiply_bf16_on_tiles(
            Tile { rows, depth, c_stride: 32, add: true },
            &a,
            &b,
            &mut c,
        );
        for (i, got) in c.iter().enumerate() {
            let column: Vec<f32> = (0..depth).map(|k| b[k * 32 + i % 32]).collect();
            let want = dot_on_tiles(start[i], &a[i / 32 * STRIDE..][..depth], &column);
            assert_eq!(got.to_bits(), want.to_bits(), "{rows} × {depth}");
        }
    }
}

/// Infinities and what is no number included, word for word.
#[test]
fn a_tile_of_amx_has_the_bits_of_its_definition_on_words_of_any_bits() {
    let any = |seed: u64, len: usize| -> Vec<f32> {
        let bits = |x: &f32| x.to_bits().wrapping_mul(0x9e37_79b9).rotate_left(13);
        noise(seed, len).iter().map(|x| f32::from_bits(bits(x))).collect()
    };
    for isa in Isa::available().into_iter().filter(|isa| isa.has_tiles(Precision::Bf16)) {
        for (rows, depth) in [(16, 16), (32, 32), (33, 48), (7, 13), (70, 384), (17, 209)] {
            for (a, b) in [
                (any(1, behind(rows) * STRIDE), any(2, depth * 32)),
                (wild(3, behind(rows) * STRIDE), wild(4, depth * 32)),
            ] {
                for add in [false, true] {
                    let tile = Tile { rows, depth, c_stride: 32, add };
                    let (mut got, mut want) =
                        (any(5, behind(rows) * 32), any(5, behind(rows) * 32));
                    Kernel::new(isa, Precision::Bf16).multiply(tile, &a, &b, &mut got, None);
                    words::multiply_bf16_on_tiles(tile, &a, &b, &mut want);
                    for (got, want) in got.iter().zip(&want).take(rows * 32) {
                        let same = got.to_bits() == want.to_bits();
                        assert!(same || got.is_nan() && want.is_nan(), "{got:e}, not {want:e}");
                    }
                }
            }
        }
    }
}

#[test]
fn kernels_of_tiles_may_live_side_by_side_on_a_thread() {
    let (rows, depth) = (20, 32);
    let (a, b) = (wild(1, behind(rows) * STRIDE), wild(2, depth * 32));
    let tile = Tile { rows, depth, c_stride: 32, add: false };
    for isa in Isa::available() {
        let product = |kernel: &Kernel| {
            let mut c = vec![0.0; behind(rows) * 32];
            kernel.multiply(tile, &a, &b, &mut c, None);
            c[..rows * 32].iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let outer = Kernel::new(isa, Precision::Int8);
        let first = product(&outer);
        product(&Kernel::new(isa, Precision::Bf16));
        assert_eq!(product(&outer), first, "{isa:?}");
    }
}

#[test]
fn packed_rows_of_bf16_multiply_to_the_same_bits_as_rows_one_after_another() {
    for middle in [2 * DEPTH + 41, 31] {
        let (rows, inputs, outputs) = (60, 20, 70);
        let bf16 =
            |seed, outputs, inputs| linear_in(seed, outputs, inputs, Storage::F32, Precision::Bf16);
        let (up, gate, down) =
            (bf16(3, middle, inputs), bf16(8, middle, inputs), bf16(4, outputs, middle));
        let x = noise(5, rows * inputs);
        let from = Plain { values: &x, width: inputs };
        for isa in Isa::available() {
            for gate in [None, Some(&gate)] {
                let gelu = Activation::Gelu;
                let mut plain = vec![0.0; rows * middle];
                project_activated(isa, rows, from, gate, &up, gelu, Lie::Rows, &mut plain);
                let mut packed = vec![f32::NAN; Packed::words(rows, middle, Precision::Bf16)];
                project_activated(isa, rows, from, gate, &up, gelu, Lie::Packed, &mut packed);
                let (mut a, mut b) = (vec![0.0; rows * outputs], vec![0.0; rows * outputs]);
                let plain = Plain { values: &plain, width: middle };
                project(isa, rows, plain, &mut [(&down, &mut a[..])]);
                project(isa, rows, Packed::new(&packed, rows), &mut [(&down, &mut b[..])]);
                assert!(a == b, "{isa:?} {middle}");
            }
        }
    }
}

#[test]
fn attention_in_bf16_stays_near_f64_and_a_query_keeps_its_bits_in_any_company() {
    for (heads, kv_heads, head_dim, len) in [(1, 1, 1, 1), (4, 2, 13, 37), (2, 2, 64, 451)] {
        for visibility in [Visibility::Full, Visibility::Causal, Visibility::Window(5)] {
            let case = Case::new(heads, kv_heads, head_dim, len, visibility);
            let case = Case { precision: Precision::Bf16, ..case };
            for isa in Isa::available() {
                let got = case.whole(isa, 0..len);
                for query in (0..len).step_by(1 + len / 20) {
                    for (i, want) in case.oracle(query, heads - 1, len).iter().enumerate() {
                        let got = got[(query * heads + heads - 1) * head_dim + i];
                        let off = (f64::from(got) - want).abs();
                        assert!(off < 2e-2, "{isa:?} {visibility:?} {head_dim} {len}: {off}");
                    }
                }
            }
        }
    }
    query_is_invariant(Precision::Bf16, 24);
    query_is_invariant(Precision::Bf16, 7);
}

#[test]
fn answers_about_bf16_logits_have_the_bits_of_the_whole_row() {
    let (outputs, inputs) = (203, 77);
    let decoder = linear_in(3, outputs, inputs, Storage::F32, Precision::Bf16);
    let (hidden, all) = (noise(8, 20 * inputs), (0..outputs as u32).collect::<Vec<_>>());
    for isa in Isa::available() {
        let ask =
            |row| RowQuestion { row, best: true, top: 9, tokens: &all, ..RowQuestion::default() };
        let answers = answer(isa, &decoder, &hidden, &(0..20).map(ask).collect::<Vec<_>>());
        for (row, answer) in answers.iter().enumerate() {
            let logits = full_logits(isa, &decoder, &hidden[row * inputs..][..inputs], &[]);
            assert_eq!(answer.logits, logits);
            let (token, logit) = answer.best.unwrap();
            assert!(logit == logits[token as usize] && logits.iter().all(|x| *x <= logit));
            assert_eq!(answer.top[0], (token, logit));
        }
    }
}
