//! The executor against a plain f64 forward pass, and bit for bit against itself in other company.

use std::{convert::Infallible, sync::Arc};

use proptest::prelude::*;

use super::*;
use crate::stack::*;

/// Deterministic numbers in (−1, 1).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn vector(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.next() * scale).collect()
    }

    fn linear(&mut self, outputs: usize, inputs: usize, bias: bool) -> Linear {
        let weights = self.vector(outputs * inputs, 1.7 / (inputs as f32).sqrt());
        let linear = Linear::pack(&weights, outputs, inputs, Layout::OutIn, Storage::F32);
        if bias { linear.with_bias(self.vector(outputs, 0.1)) } else { linear }
    }

    fn norm(&mut self, width: usize, kind: NormKind) -> Norm {
        let weight = self.vector(width, 0.3).iter().map(|w| 1.0 + w).collect();
        let bias = (kind == NormKind::Layer).then(|| self.vector(width, 0.1));
        Norm { kind, weight, bias, eps: 1e-5 }
    }

    fn table(&mut self, rows: usize, width: usize) -> Table {
        let table: Result<Table, Infallible> =
            Table::stream(rows, width, Storage::F32, |_, row| {
                row.iter_mut().for_each(|x| *x = self.next());
                Ok(())
            });
        table.unwrap_or_else(|never| match never {})
    }
}

const VOCABULARY: usize = 61;

/// Random stacks that between them use every option of the data model.
fn stack(kind: usize, seed: u64) -> (Stack, Head) {
    let mut noise = Noise(seed * 2 + 0x1234_5677);
    let (heads, kv_heads, head_dim) =
        [(4, 4, 6), (6, 2, 8), (3, 1, 10), (2, 2, 7), (4, 4, 4)][kind];
    let width = [24, 48, 30, 14, 16][kind];
    let hidden = 2 * width + 5;
    let rms = matches!(kind, 1 | 2);
    let norm_kind = if rms { NormKind::Rms } else { NormKind::Layer };
    let rotary = (kind != 3).then(|| Arc::new(Rotary::new(head_dim, 500.0)));
    let conditioned = kind == 4;
    let block = |i: usize, noise: &mut Noise| Block {
        attn_norm: (i > 0 || kind != 0).then(|| noise.norm(width, norm_kind)),
        attention: Attention {
            heads,
            kv_heads,
            head_dim,
            q: noise.linear(heads * head_dim, width, kind == 1),
            k: noise.linear(kv_heads * head_dim, width, kind == 1),
            v: noise.linear(kv_heads * head_dim, width, kind == 1),
            o: noise.linear(width, heads * head_dim, kind == 3),
            rotary: rotary.clone(),
            visibility: match (kind, i % 2) {
                (0, 1) => Visibility::Window(3),
                (2, _) => Visibility::Causal,
                _ => Visibility::Full,
            },
        },
        ff_norm: Some(noise.norm(width, norm_kind)),
        feed_forward: FeedForward {
            gate: matches!(kind, 0..=2).then(|| noise.linear(hidden, width, kind == 0)),
            up: noise.linear(hidden, width, true),
            activation: if rms {
                Activation::Silu
            } else {
                [Activation::Gelu, Activation::GeluTanh][i % 2]
            },
            down: noise.linear(width, hidden, true),
        },
        post_norm: kind == 3,
        modulation: conditioned.then(|| Modulation(noise.linear(6 * width, 9, true))),
    };
    let blocks = (0..3).map(|i| block(i, &mut noise)).collect();
    let decoder = Arc::new(noise.linear(VOCABULARY, width, kind == 3));
    let tokens =
        if kind == 2 { Table::Tied(Arc::clone(&decoder)) } else { noise.table(VOCABULARY, width) };
    let transform = (kind == 3).then(|| HeadTransform {
        dense: noise.linear(width, width, true),
        activation: Activation::Gelu,
        norm: Some(noise.norm(width, NormKind::Layer)),
    });
    let stack = Stack {
        embed: Embed {
            tokens,
            positions: (kind == 3).then(|| (noise.table(60, width), PositionRule::CountNonPad(1))),
            constant: (kind == 3).then(|| noise.vector(width, 0.2)),
            norm: matches!(kind, 0 | 3).then(|| noise.norm(width, NormKind::Layer)),
        },
        blocks,
        final_norm: (kind != 3).then(|| noise.norm(width, norm_kind)),
        conditioning: conditioned.then(|| Conditioning {
            first: noise.linear(9, 8, true),
            second: noise.linear(9, 9, true),
        }),
        final_modulation: conditioned.then(|| noise.linear(2 * width, 9, true)),
    };
    (stack, Head { transform, decoder })
}

fn tokens(noise: &mut Noise, len: usize) -> Vec<u32> {
    (0..len)
        .map(|_| ((noise.next() + 1.0) * 0.5 * VOCABULARY as f32) as u32 % VOCABULARY as u32)
        .collect()
}

/// The same network in plain f64 loops.
mod oracle {
    use super::*;

    pub fn linear(linear: &Linear, x: &[f64]) -> Vec<f64> {
        let mut row = vec![0.0; linear.inputs()];
        (0..linear.outputs())
            .map(|r| {
                linear.unpack_row(r, &mut row);
                let sum: f64 = row.iter().zip(x).map(|(&w, &x)| f64::from(w) * x).sum();
                sum + linear.bias().map_or(0.0, |b| f64::from(b[r]))
            })
            .collect()
    }

    pub fn norm(norm: Option<&Norm>, x: &[f64]) -> Vec<f64> {
        let Some(norm) = norm else { return x.to_vec() };
        let n = x.len() as f64;
        let mean = if norm.kind == NormKind::Layer { x.iter().sum::<f64>() / n } else { 0.0 };
        let spread = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let bias = |i: usize| norm.bias.as_ref().map_or(0.0, |b| f64::from(b[i]));
        let scale = 1.0 / (spread + f64::from(norm.eps)).sqrt();
        (0..x.len()).map(|i| (x[i] - mean) * scale * f64::from(norm.weight[i]) + bias(i)).collect()
    }

    fn activate(activation: Activation, x: f64) -> f64 {
        // erf by its Maclaurin series: arguments here are small.
        let erf = |z: f64| {
            let (mut term, mut sum) = (z, z);
            for n in 1..120 {
                term *= -z * z / n as f64;
                sum += term / (2 * n + 1) as f64;
            }
            sum * 2.0 / std::f64::consts::PI.sqrt()
        };
        match activation {
            Activation::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
            Activation::GeluTanh => {
                0.5 * x
                    * (1.0
                        + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
            }
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Relu => x.max(0.0),
            Activation::Tanh => x.tanh(),
        }
    }

    fn attention(a: &Attention, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let d = a.head_dim;
        let rotated = |x: &mut Vec<f64>, position: usize| {
            let Some(rotary) = &a.rotary else { return };
            for head in x.chunks_mut(d) {
                for i in 0..d / 2 {
                    let (s, c) =
                        f64::from(position as f32 * rotary.inverse_frequencies()[i]).sin_cos();
                    (head[i], head[i + d / 2]) =
                        (head[i] * c - head[i + d / 2] * s, head[i + d / 2] * c + head[i] * s);
                }
            }
        };
        let run = |l: &Linear, turn: bool| -> Vec<Vec<f64>> {
            let mut all: Vec<Vec<f64>> = rows.iter().map(|x| linear(l, x)).collect();
            if turn {
                all.iter_mut().enumerate().for_each(|(i, x)| rotated(x, i));
            }
            all
        };
        let (q, k, v) = (run(&a.q, true), run(&a.k, true), run(&a.v, false));
        let mut result = Vec::new();
        for (i, query) in q.iter().enumerate() {
            let mut context = vec![0.0; a.heads * d];
            for head in 0..a.heads {
                let kv = head / (a.heads / a.kv_heads);
                let seen = |j: usize| match a.visibility {
                    Visibility::Full => true,
                    Visibility::Causal => j <= i,
                    Visibility::Window(w) => j.abs_diff(i) <= w,
                };
                let score = |j: usize| {
                    let dot: f64 = (0..d).map(|c| query[head * d + c] * k[j][kv * d + c]).sum();
                    (dot / (d as f64).sqrt()).exp()
                };
                let weights: Vec<f64> =
                    (0..rows.len()).map(|j| if seen(j) { score(j) } else { 0.0 }).collect();
                let sum: f64 = weights.iter().sum();
                for c in 0..d {
                    context[head * d + c] =
                        (0..rows.len()).map(|j| weights[j] * v[j][kv * d + c]).sum::<f64>() / sum;
                }
            }
            result.push(linear(&a.o, &context));
        }
        result
    }

    fn feed_forward(ff: &FeedForward, x: &[f64]) -> Vec<f64> {
        let up = linear(&ff.up, x);
        let inner: Vec<f64> = match &ff.gate {
            Some(gate) => linear(gate, x)
                .iter()
                .zip(up)
                .map(|(g, u)| activate(ff.activation, *g) * u)
                .collect(),
            None => up.into_iter().map(|u| activate(ff.activation, u)).collect(),
        };
        linear(&ff.down, &inner)
    }

    fn add(x: &mut [f64], more: &[f64], gate: &[f64]) {
        x.iter_mut().zip(more).zip(gate).for_each(|((x, m), g)| *x += m * g);
    }

    /// Logits of one sequence.
    pub fn logits(stack: &Stack, head: &Head, tokens: &[u32], sigma: f32) -> Vec<Vec<f64>> {
        let width = stack.width();
        let read = |table: &Table, row: usize| -> Vec<f64> {
            let mut x = vec![0.0f32; width];
            table.read(row, &mut x);
            x.into_iter().map(f64::from).collect()
        };
        let condition: Option<Vec<f64>> = stack
            .conditioning
            .as_ref()
            .map(|c| c.vector(sigma).into_iter().map(f64::from).collect());
        let parts = |l: Option<&Linear>, n: usize| -> Vec<Vec<f64>> {
            match (l, &condition) {
                (Some(l), Some(c)) => linear(l, c).chunks(width).map(<[f64]>::to_vec).collect(),
                _ => (0..n).map(|i| vec![f64::from(u8::from(i % 3 == 2)); width]).collect(),
            }
        };
        let shifted = |x: Vec<f64>, shift: &[f64], scale: &[f64]| -> Vec<f64> {
            x.iter()
                .zip(shift)
                .zip(scale)
                .map(|((x, shift), scale)| x * (1.0 + scale) + shift)
                .collect()
        };
        let mut counted = 1;
        let mut rows: Vec<Vec<f64>> = tokens
            .iter()
            .map(|&token| {
                let mut x = read(&stack.embed.tokens, token as usize);
                if let Some((table, _)) = &stack.embed.positions {
                    // CountNonPad(1)
                    let at = if token == 1 {
                        1
                    } else {
                        counted += 1;
                        counted
                    };
                    add(&mut x, &read(table, at), &vec![1.0; width]);
                }
                if let Some(constant) = &stack.embed.constant {
                    x.iter_mut().zip(constant).for_each(|(x, c)| *x += f64::from(*c));
                }
                norm(stack.embed.norm.as_ref(), &x)
            })
            .collect();
        for block in &stack.blocks {
            let m = parts(block.modulation.as_ref().map(|m| &m.0), 6);
            let before = |n: Option<&Norm>, x: &[f64], i: usize| {
                if block.post_norm { x.to_vec() } else { shifted(norm(n, x), &m[i], &m[i + 1]) }
            };
            let after = |n: Option<&Norm>, x: &mut Vec<f64>| {
                if block.post_norm {
                    *x = norm(n, x);
                }
            };
            let inputs: Vec<Vec<f64>> =
                rows.iter().map(|x| before(block.attn_norm.as_ref(), x, 0)).collect();
            for (x, more) in rows.iter_mut().zip(attention(&block.attention, &inputs)) {
                add(x, &more, &m[2]);
                after(block.attn_norm.as_ref(), x);
                let more = feed_forward(&block.feed_forward, &before(block.ff_norm.as_ref(), x, 3));
                add(x, &more, &m[5]);
                after(block.ff_norm.as_ref(), x);
            }
        }
        let m = parts(stack.final_modulation.as_ref(), 2);
        rows.iter()
            .map(|x| {
                let mut x = norm(stack.final_norm.as_ref(), x);
                if stack.final_norm.is_some() {
                    x = shifted(x, &m[0], &m[1]);
                }
                if let Some(t) = &head.transform {
                    x = linear(&t.dense, &x)
                        .into_iter()
                        .map(|x| activate(t.activation, x))
                        .collect();
                    x = norm(t.norm.as_ref(), &x);
                }
                linear(&head.decoder, &x)
            })
            .collect()
    }
}

#[test]
fn logits_agree_with_a_plain_f64_forward_for_every_kind_of_network() {
    for isa in Isa::available() {
        let runner = Runner::new().with_isa(isa);
        for kind in 0..5 {
            let (stack, head) = stack(kind, 3);
            let mut noise = Noise(99);
            let rows = [tokens(&mut noise, 17), tokens(&mut noise, 1), tokens(&mut noise, 40)];
            let batch: Vec<Sequence<'_>> =
                rows.iter().map(|t| Sequence { tokens: t, keep: Keep::All, sigma: 0.7 }).collect();
            let hidden = runner.hidden(&stack, &batch).unwrap();
            for (i, tokens) in rows.iter().enumerate() {
                let got = runner.logits(&head, hidden.of(i)).unwrap();
                let want: Vec<f64> = oracle::logits(&stack, &head, tokens, 0.7).concat();
                let off = got
                    .iter()
                    .zip(&want)
                    .map(|(a, b)| (f64::from(*a) - b).abs())
                    .fold(0.0, f64::max);
                assert!(
                    got.len() == want.len() && off < 1.5e-5,
                    "{isa:?} kind {kind}: off by {off}"
                );
            }
        }
    }
}

#[test]
fn a_sequence_gives_bitwise_the_same_alone_in_any_batch_and_at_any_thread_count() {
    for isa in Isa::available() {
        for kind in 0..5 {
            let (stack, _) = stack(kind, 5);
            let mut noise = Noise(7);
            let rows: Vec<Vec<u32>> =
                [13, 50, 1, 29, 13].iter().map(|&n| tokens(&mut noise, n)).collect();
            let all: Vec<Sequence<'_>> = rows
                .iter()
                .map(|t| Sequence { tokens: t, keep: Keep::All, sigma: t.len() as f32 / 9.0 })
                .collect();
            let alone: Vec<Hidden> = all
                .iter()
                .map(|s| {
                    let runner = Runner::new().with_isa(isa).every_row();
                    runner.hidden(&stack, std::slice::from_ref(s)).unwrap()
                })
                .collect();
            for threads in [1, 3] {
                let pool =
                    Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
                let runner = Runner::new().with_isa(isa).with_pool(pool);
                let reversed: Vec<Sequence<'_>> = all.iter().rev().copied().collect();
                let (forth, back) = (
                    runner.hidden(&stack, &all).unwrap(),
                    runner.hidden(&stack, &reversed).unwrap(),
                );
                for (i, alone) in alone.iter().enumerate() {
                    assert!(forth.of(i) == alone.values(), "{isa:?} kind {kind} {threads} threads");
                    assert!(back.of(all.len() - 1 - i) == alone.values());
                }
            }
        }
    }
}

#[test]
fn rows_that_are_kept_equal_those_rows_of_a_full_run() {
    for kind in 0..5 {
        let (stack, _) = stack(kind, 8);
        let (runner, tokens) = (Runner::new(), tokens(&mut Noise(3), 33));
        let sequence = |keep| Sequence { tokens: &tokens, keep, sigma: 0.3 };
        let all = runner.hidden(&stack, &[sequence(Keep::All)]).unwrap();
        let some = [32usize, 0, 5, 6];
        let batch = [
            sequence(Keep::Positions(&some)),
            sequence(Keep::First),
            sequence(Keep::Positions(&[])),
        ];
        let kept = runner.hidden(&stack, &batch).unwrap();
        let width = stack.width();
        for (i, &position) in some.iter().enumerate() {
            assert!(kept.of(0)[i * width..][..width] == all.values()[position * width..][..width]);
        }
        assert!(kept.of(1) == &all.values()[..width] && kept.of(2).is_empty());
    }
}

#[test]
fn large_batches_run_in_portions_with_the_same_numbers() {
    let (stack, _) = stack(1, 2);
    let mut noise = Noise(21);
    let rows: Vec<Vec<u32>> = (0..60).map(|i| tokens(&mut noise, 20 + i)).collect();
    let batch: Vec<Sequence<'_>> = rows.iter().map(|t| Sequence::all(t)).collect();
    let hidden = Runner::new().hidden(&stack, &batch).unwrap();
    assert!(hidden == Runner::new().one_by_one().hidden(&stack, &batch).unwrap());
    for i in [0, 23, 59] {
        assert!(hidden.of(i) == Runner::new().hidden(&stack, &batch[i..=i]).unwrap().values());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn shared_prefixes_change_no_bit_of_a_likelihood(
        seed in 0u64..500,
        lengths in prop::collection::vec((0usize..30, 0usize..30), 1..9),
    ) {
        let (stack, head) = stack(2, seed);
        let mut noise = Noise(seed + 1);
        let trunk = tokens(&mut noise, 30);
        let rows: Vec<Vec<u32>> = lengths
            .iter()
            .map(|&(shared, more)| [&trunk[..shared], &tokens(&mut noise, more)[..]].concat())
            .collect();
        let batch: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        for isa in Isa::available() {
            let runner = Runner::new().with_isa(isa);
            let together = runner.nll(&stack, &head, &batch).unwrap();
            for (row, nll) in rows.iter().zip(&together) {
                let alone = runner.nll(&stack, &head, &[row]).unwrap();
                prop_assert_eq!(&alone[0], nll);
                prop_assert_eq!(nll.len(), row.len().saturating_sub(1));
                let logits = oracle::logits(&stack, &head, row, 0.0);
                for (t, nll) in nll.iter().enumerate() {
                    let sum: f64 = logits[t].iter().map(|x| x.exp()).sum();
                    prop_assert!((sum.ln() - logits[t][row[t + 1] as usize] - nll).abs() < 1e-5);
                }
            }
        }
    }
}

#[test]
fn classes_come_from_the_first_token_of_a_full_run() {
    let (stack, _) = stack(3, 4);
    let mut noise = Noise(17);
    let classify = Classify {
        dense: Some((noise.linear(14, 14, true), Activation::Tanh)),
        classifier: noise.linear(3, 14, true),
    };
    let (short, long) = (tokens(&mut noise, 9), tokens(&mut noise, 31));
    let rows = [&short, &long, &short];
    let runner = Runner::new();
    let got = runner.classify(&stack, &classify, &[rows[0], rows[1], rows[2]]).unwrap();
    assert_eq!(got.len(), 3);
    for (row, got) in rows.iter().zip(got) {
        let hidden = runner.hidden(&stack, &[Sequence::all(row)]).unwrap();
        let first: Vec<f64> = hidden.values()[..14].iter().map(|&x| f64::from(x)).collect();
        let (dense, _) = classify.dense.as_ref().unwrap();
        let inner: Vec<f64> = oracle::linear(dense, &first).into_iter().map(f64::tanh).collect();
        for (a, b) in got.iter().zip(oracle::linear(&classify.classifier, &inner)) {
            assert!((f64::from(*a) - b).abs() < 1e-6);
        }
    }
}

#[test]
fn bad_batches_are_refused_with_the_reason() {
    let (mut stack, head) = stack(3, 4);
    let runner = Runner::new();
    let run = |stack: &Stack, tokens: &[u32], keep: Keep<'_>| {
        runner.hidden(stack, &[Sequence { tokens, keep, sigma: 0.0 }]).unwrap_err().to_string()
    };
    assert_eq!(run(&stack, &[5, 61], Keep::All), "token 61: expected an id below 61");
    assert_eq!(run(&stack, &[5; 59], Keep::All), "sequence: expected at most 58 tokens, got 59");
    assert_eq!(run(&stack, &[5; 3], Keep::Positions(&[3])), "position 3: expected one below 3");
    assert!(matches!(runner.nll(&stack, &head, &[&[1, 2]]), Err(ExecError::NotCausal)));
    let question = RowQuestion { row: 1, best: true, ..Default::default() };
    assert!(runner.ask(&head, &[0.0; 14], &[question]).is_err());
    assert!(runner.ask(&head, &[0.0; 15], &[]).is_err());
    stack.blocks[1].attention.kv_heads = 3;
    assert!(run(&stack, &[5], Keep::All).contains("block 1 attention"));
}
