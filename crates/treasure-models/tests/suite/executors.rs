//! Executors on random networks that between them use every option of the data model: the CPU against the plain
//! f64 loops of [`crate::scalar`], and bit for bit against itself in other company.

use std::sync::Arc;

use proptest::prelude::*;
use treasure_models::{exec::*, stack::*};

use crate::scalar::Scalar;

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

    fn linear(&mut self, outputs: usize, inputs: usize, bias: bool) -> Matrix {
        let weights = self.vector(outputs * inputs, 1.7 / (inputs as f32).sqrt());
        let matrix = Matrix::from_values(outputs, inputs, weights);
        if bias { matrix.with_bias(self.vector(outputs, 0.1)) } else { matrix }
    }

    fn dense(&mut self, outputs: usize, inputs: usize) -> Dense {
        let weights = self.vector(outputs * inputs, 1.7 / (inputs as f32).sqrt());
        Dense { weights, bias: self.vector(outputs, 0.1) }
    }

    fn norm(&mut self, width: usize, kind: NormKind) -> Norm {
        let weight = self.vector(width, 0.3).iter().map(|w| 1.0 + w).collect();
        let bias = (kind == NormKind::Layer).then(|| self.vector(width, 0.1));
        Norm { kind, weight, bias, eps: 1e-5 }
    }

    fn table(&mut self, rows: usize, width: usize) -> Matrix {
        Matrix::from_values(rows, width, self.vector(rows * width, 1.0))
    }
}

const VOCABULARY: usize = 61;

/// Random stacks that between them use every option of the data model.
fn parts(kind: usize, seed: u64) -> (Stack, Head) {
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
    let decoder = noise.linear(VOCABULARY, width, kind == 3);
    let tokens = match kind {
        2 => Tokens::Decoder,
        _ => Tokens::Own(noise.table(VOCABULARY, width)),
    };
    let transform = (kind == 3).then(|| HeadTransform {
        dense: noise.linear(width, width, true),
        activation: Activation::Gelu,
        norm: Some(noise.norm(width, NormKind::Layer)),
    });
    let stack = Stack {
        width,
        embed: Embed {
            tokens,
            positions: (kind == 3).then(|| (noise.table(60, width), PositionRule::CountNonPad(1))),
            constant: (kind == 3).then(|| noise.vector(width, 0.2)),
            norm: matches!(kind, 0 | 3).then(|| noise.norm(width, NormKind::Layer)),
        },
        blocks,
        final_norm: (kind != 3).then(|| noise.norm(width, norm_kind)),
        conditioning: conditioned
            .then(|| Conditioning { first: noise.dense(9, 8), second: noise.dense(9, 9) }),
        final_modulation: conditioned.then(|| noise.linear(2 * width, 9, true)),
    };
    (stack, Head { transform, decoder })
}

fn network(kind: usize, seed: u64) -> Network {
    let (stack, head) = parts(kind, seed);
    Network::new(stack, Reader::Vocabulary(head)).unwrap()
}

fn on(executor: &dyn Executor, network: Network) -> Runner {
    Runner::new(executor, network, Storage::F32).unwrap()
}

fn tokens(noise: &mut Noise, len: usize) -> Vec<u32> {
    (0..len)
        .map(|_| ((noise.next() + 1.0) * 0.5 * VOCABULARY as f32) as u32 % VOCABULARY as u32)
        .collect()
}

#[test]
fn logits_agree_with_plain_f64_loops_for_every_kind_of_network() {
    for kind in 0..5 {
        let slow = on(&Scalar, network(kind, 3));
        let mut noise = Noise(99);
        let rows = [tokens(&mut noise, 17), tokens(&mut noise, 1), tokens(&mut noise, 40)];
        let batch: Vec<Sequence<'_>> =
            rows.iter().map(|t| Sequence { tokens: t, keep: Keep::All, sigma: 0.7 }).collect();
        let want = slow.logits(slow.hidden(&batch).unwrap().values()).unwrap();
        for isa in Isa::available() {
            let fast = on(&Cpu::new().with_isa(isa), network(kind, 3));
            let hidden = fast.hidden(&batch).unwrap();
            let got = fast.logits(hidden.values()).unwrap();
            let off = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(got.len() == want.len() && off < 1.5e-5, "{isa:?} kind {kind}: off by {off}");
        }
    }
}

#[test]
fn a_sequence_gives_bitwise_the_same_alone_in_any_batch_and_at_any_thread_count() {
    for isa in Isa::available() {
        let cpu = Cpu::new().with_isa(isa);
        for kind in 0..5 {
            let mut noise = Noise(7);
            let rows: Vec<Vec<u32>> =
                [13, 50, 1, 29, 13].iter().map(|&n| tokens(&mut noise, n)).collect();
            let all: Vec<Sequence<'_>> = rows
                .iter()
                .map(|t| Sequence { tokens: t, keep: Keep::All, sigma: t.len() as f32 / 9.0 })
                .collect();
            let plain = on(&cpu.clone().every_row(), network(kind, 5));
            let alone: Vec<Hidden> =
                all.iter().map(|s| plain.hidden(std::slice::from_ref(s)).unwrap()).collect();
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let runner = on(&cpu.clone().with_pool(Arc::new(pool)), network(kind, 5));
                let reversed: Vec<Sequence<'_>> = all.iter().rev().copied().collect();
                let (forth, back) =
                    (runner.hidden(&all).unwrap(), runner.hidden(&reversed).unwrap());
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
        let runner = on(&Cpu::new(), network(kind, 8));
        let tokens = tokens(&mut Noise(3), 33);
        let sequence = |keep| Sequence { tokens: &tokens, keep, sigma: 0.3 };
        let all = runner.hidden(&[sequence(Keep::All)]).unwrap();
        let some = [32usize, 0, 5, 6];
        let batch = [
            sequence(Keep::Positions(&some)),
            sequence(Keep::First),
            sequence(Keep::Positions(&[])),
        ];
        let kept = runner.hidden(&batch).unwrap();
        let width = kept.width();
        for (i, &position) in some.iter().enumerate() {
            assert!(kept.of(0)[i * width..][..width] == all.values()[position * width..][..width]);
        }
        assert!(kept.of(1) == &all.values()[..width] && kept.of(2).is_empty());
    }
}

#[test]
fn large_batches_run_in_portions_with_the_same_numbers() {
    let mut noise = Noise(21);
    let rows: Vec<Vec<u32>> = (0..60).map(|i| tokens(&mut noise, 20 + i)).collect();
    let batch: Vec<Sequence<'_>> = rows.iter().map(|t| Sequence::all(t)).collect();
    let runner = on(&Cpu::new(), network(1, 2));
    let hidden = runner.hidden(&batch).unwrap();
    assert!(hidden == on(&Cpu::new().one_by_one(), network(1, 2)).hidden(&batch).unwrap());
    for i in [0, 23, 59] {
        assert!(hidden.of(i) == runner.hidden(&batch[i..=i]).unwrap().values());
    }
    assert!(runner.hidden(&[]).unwrap().values().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn shared_prefixes_change_no_bit_of_a_likelihood(
        seed in 0u64..500,
        lengths in prop::collection::vec((0usize..30, 0usize..30), 1..9),
    ) {
        let mut noise = Noise(seed + 1);
        let trunk = tokens(&mut noise, 30);
        let rows: Vec<Vec<u32>> = lengths
            .iter()
            .map(|&(shared, more)| [&trunk[..shared], &tokens(&mut noise, more)[..]].concat())
            .collect();
        let batch: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        // The defaults of the interface: every sequence alone, from whole rows of logits.
        let slow = on(&Scalar, network(2, seed)).nll(&batch).unwrap();
        for isa in Isa::available() {
            let runner = on(&Cpu::new().with_isa(isa), network(2, seed));
            let together = runner.nll(&batch).unwrap();
            for ((row, nll), slow) in rows.iter().zip(&together).zip(&slow) {
                let alone = runner.nll(&[row]).unwrap();
                prop_assert_eq!(&alone[0], nll);
                prop_assert_eq!(nll.len(), row.len().saturating_sub(1));
                prop_assert_eq!(nll.len(), slow.len());
                for (nll, slow) in nll.iter().zip(slow) {
                    prop_assert!((nll - slow).abs() < 1e-5);
                }
            }
        }
    }
}

#[test]
fn answers_agree_with_those_from_whole_rows_of_logits() {
    for kind in [0, 3] {
        let (fast, slow) = (on(&Cpu::new(), network(kind, 6)), on(&Scalar, network(kind, 6)));
        let tokens = tokens(&mut Noise(5), 12);
        let hidden = fast.hidden(&[Sequence::all(&tokens)]).unwrap();
        let banned: Vec<u32> = (0..VOCABULARY as u32).filter(|t| t % 3 == 1).collect();
        let all: Vec<u32> = (0..VOCABULARY as u32).collect();
        let asks: Vec<RowQuestion<'_>> = (0..12)
            .map(|row| RowQuestion {
                row,
                banned: if row % 2 == 0 { &banned } else { &[] },
                best: true,
                top: 5,
                normaliser: true,
                draws: &[0.1, 0.45, 0.99],
                tokens: &all,
            })
            .collect();
        let (a, b) =
            (fast.ask(hidden.values(), &asks).unwrap(), slow.ask(hidden.values(), &asks).unwrap());
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(a.best.map(|(token, _)| token), b.best.map(|(token, _)| token));
            let ids = |top: &[(u32, f32)]| top.iter().map(|(id, _)| *id).collect::<Vec<_>>();
            assert_eq!(ids(&a.top), ids(&b.top));
            assert_eq!(a.draws, b.draws);
            assert!((a.normaliser.unwrap() - b.normaliser.unwrap()).abs() < 1e-5);
            for (a, b) in a.logits.iter().zip(&b.logits) {
                assert!(a == b || (a - b).abs() < 1e-5, "{a} {b}");
            }
        }
    }
}

#[test]
fn classes_come_from_the_first_token_and_equal_sequences_run_once() {
    let network = || {
        let (stack, _) = parts(3, 4);
        let mut noise = Noise(17);
        let dense = Some((noise.linear(14, 14, true), Activation::Tanh));
        let classifier = noise.linear(3, 14, true);
        Network::new(stack, Reader::Classes(Classify { dense, classifier })).unwrap()
    };
    let mut noise = Noise(18);
    let (short, long) = (tokens(&mut noise, 9), tokens(&mut noise, 31));
    let rows: [&[u32]; 3] = [&short, &long, &short];
    let first = rows.map(|tokens| (tokens, 0));
    let (fast, slow) = (on(&Cpu::new(), network()), on(&Scalar, network()));
    let (got, want) = (fast.classify_at(&first).unwrap(), slow.classify_at(&first).unwrap());
    assert_eq!((got.len(), &got[0]), (3, &got[2]));
    for (a, b) in got.concat().iter().zip(want.concat()) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
    let refused = fast.nll(&rows).unwrap_err().to_string();
    assert_eq!(refused, "network: expected a vocabulary head, got a classifier");
    let refused = fast.classify_at(&[(&[], 0)]).unwrap_err().to_string();
    assert_eq!(refused, "position 0: expected one below 0");
}

#[test]
fn bad_batches_are_refused_with_the_reason() {
    let runner = on(&Cpu::new(), network(3, 4));
    let run = |tokens: &[u32], keep: Keep<'_>| {
        runner.hidden(&[Sequence { tokens, keep, sigma: 0.0 }]).unwrap_err().to_string()
    };
    assert_eq!(run(&[5, 61], Keep::All), "token 61: expected an id below 61");
    assert_eq!(run(&[5; 59], Keep::All), "sequence: expected at most 58 tokens, got 59");
    assert_eq!(run(&[5; 3], Keep::Positions(&[3])), "position 3: expected one below 3");
    let refused = runner.nll(&[&[1, 2]]).unwrap_err().to_string();
    assert!(refused.ends_with("to score text, got a layer that looks ahead"), "{refused}");
    let refused = runner.classify_at(&[(&[1, 2], 0)]).unwrap_err().to_string();
    assert_eq!(refused, "network: expected a classifier, got a vocabulary head");
    let question = RowQuestion { row: 1, best: true, ..Default::default() };
    assert!(runner.ask(&[0.0; 14], &[question]).is_err());
    let question = RowQuestion { tokens: &[61], ..Default::default() };
    assert!(runner.ask(&[0.0; 14], &[question]).is_err());
    assert!(runner.ask(&[0.0; 15], &[]).is_err());
}

#[test]
fn a_network_whose_parts_do_not_fit_is_none() {
    let broken = |change: &dyn Fn(&mut Stack, &mut Head)| {
        let (mut stack, mut head) = parts(3, 4);
        change(&mut stack, &mut head);
        Network::new(stack, Reader::Vocabulary(head)).map(drop).unwrap_err().to_string()
    };
    let text = broken(&|stack, _| stack.blocks[1].attention.kv_heads = 3);
    assert_eq!(text, "block 1 attention: expected heads a multiple of key heads, got 2 over 3");
    let text = broken(&|stack, _| stack.blocks[2].feed_forward.down = Noise(1).linear(14, 5, true));
    assert_eq!(text, "block 2 feed_forward.down inputs: expected 33, got 5");
    let text = broken(&|stack, _| stack.width = 15);
    assert!(text.contains("expected 15, got 14"), "{text}");
    let text =
        broken(&|_, head| head.decoder = Noise(1).linear(61, 14, false).with_bias(vec![0.0]));
    assert_eq!(text, "logits bias: expected 61, got 1");
    let (mut stack, _) = parts(3, 4);
    stack.embed.tokens = Tokens::Decoder;
    let classify = Classify { dense: None, classifier: Noise(1).linear(3, 14, true) };
    assert!(Network::new(stack, Reader::Classes(classify)).is_err());
    // What the CPU kernels cannot do is the CPU's to refuse.
    let (mut stack, head) = parts(3, 4);
    let mut noise = Noise(2);
    for block in &mut stack.blocks {
        let a = &mut block.attention;
        (a.heads, a.kv_heads, a.head_dim) = (1, 1, 400);
        (a.q, a.k, a.v) = (
            noise.linear(400, 14, false),
            noise.linear(400, 14, false),
            noise.linear(400, 14, false),
        );
        a.o = noise.linear(14, 400, false);
    }
    let network = Network::new(stack, Reader::Vocabulary(head)).unwrap();
    let error = Runner::new(&Cpu::new(), network, Storage::F32).unwrap_err().to_string();
    assert_eq!(error, "attention head: expected at most 384 components on the CPU, got 400");
}

#[test]
fn a_source_that_fails_ends_the_loading_with_its_error() {
    let (mut stack, head) = parts(3, 4);
    stack.blocks[1].attention.o = Matrix::new("o", 14, 14, |first: usize, _: &mut [f32]| {
        Err(treasure_models::Error::new(format!("row {first} is gone")))
    });
    let network = Network::new(stack, Reader::Vocabulary(head)).unwrap();
    let error = Runner::new(&Cpu::new(), network, Storage::F32).unwrap_err();
    assert_eq!(error.to_string(), "row 0 is gone");
}
