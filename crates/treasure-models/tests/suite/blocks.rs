//! GGUF block types against blocks worked out by hand and, on random blocks, against two other dequantisers:
//! candle's, and that of the `gguf` Python package (`tests/fixtures/make_gguf_blocks.py`).

use std::borrow::Cow;

use candle_core::{CpuStorage, quantized::GgmlDType};
use treasure_core::Key;
use treasure_models::gguf::BlockType;

/// candle's name for a type, and where its blocks hold half-precision numbers.
fn candle(kind: BlockType) -> (GgmlDType, &'static [usize]) {
    match kind {
        BlockType::F32 => (GgmlDType::F32, &[]),
        BlockType::F16 => (GgmlDType::F16, &[0]),
        BlockType::BF16 => (GgmlDType::BF16, &[]),
        BlockType::Q4_0 => (GgmlDType::Q4_0, &[0]),
        BlockType::Q4_1 => (GgmlDType::Q4_1, &[0, 2]),
        BlockType::Q5_0 => (GgmlDType::Q5_0, &[0]),
        BlockType::Q5_1 => (GgmlDType::Q5_1, &[0, 2]),
        BlockType::Q8_0 => (GgmlDType::Q8_0, &[0]),
        BlockType::Q2_K => (GgmlDType::Q2K, &[80, 82]),
        BlockType::Q3_K => (GgmlDType::Q3K, &[108]),
        BlockType::Q4_K => (GgmlDType::Q4K, &[0, 2]),
        BlockType::Q5_K => (GgmlDType::Q5K, &[0, 2]),
        BlockType::Q6_K => (GgmlDType::Q6K, &[208]),
    }
}

fn widened(kind: BlockType, bytes: &[u8]) -> Vec<f32> {
    let mut to = vec![f32::NAN; bytes.len() / kind.bytes() * kind.numbers()];
    kind.widen(bytes, &mut to);
    to
}

#[test]
fn random_blocks_of_every_type_widen_to_the_bits_of_candle() {
    const BLOCKS: usize = 64;
    for (number, kind) in BlockType::ALL {
        let (theirs, halves) = candle(kind);
        assert_eq!((kind.bytes(), kind.numbers()), (theirs.type_size(), theirs.block_size()));
        let key = Key::new(u64::from(number));
        let mut bytes: Vec<u8> =
            (0..BLOCKS * kind.bytes()).map(|i| key.fold(i as u64).below(256) as u8).collect();
        for block in bytes.chunks_exact_mut(kind.bytes()) {
            // Scales of every sign and size, but numbers.
            halves.iter().for_each(|&at| block[at + 1] &= 0xbf);
            if matches!(kind, BlockType::F32 | BlockType::BF16) {
                block[kind.bytes() - 1] &= 0xbf;
            }
        }
        let blocks = theirs.from_data(Cow::Owned(bytes.clone()));
        let CpuStorage::F32(want) = blocks.dequantize(BLOCKS * kind.numbers()).unwrap() else {
            panic!("f32");
        };
        let got = widened(kind, &bytes);
        assert_eq!(got.len(), want.len());
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got.to_bits(), want.to_bits(), "{kind:?} number {i}: {got} and {want}");
        }
    }
}

#[test]
fn blocks_of_every_type_widen_to_the_numbers_of_the_gguf_package() {
    let file = include_str!("../fixtures/blocks.json");
    let golden: serde_json::Value = serde_json::from_str(file).unwrap();
    for (_, kind) in BlockType::ALL {
        let bytes = |what: &str| -> Vec<u8> {
            let hex = golden[format!("{kind:?}")][what].as_str().unwrap().as_bytes();
            let byte =
                |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            hex.chunks(2).map(byte).collect()
        };
        let got = widened(kind, &bytes("bytes"));
        let want = bytes("numbers");
        assert_eq!(got.len() * 4, want.len(), "{kind:?}");
        for (i, (got, want)) in got.iter().zip(want.chunks_exact(4)).enumerate() {
            let want = f32::from_le_bytes(want.try_into().unwrap());
            // numpy multiplies in another order: a rounding or two apart.
            let near = (got - want).abs() <= 4.0 * f32::EPSILON * want.abs().max(1e-30);
            assert!(near, "{kind:?} number {i}: {got} and {want}");
        }
    }
}

/// The half-precision numbers the blocks below are made of.
const HALF: [u8; 2] = [0x00, 0x38];
const ONE: [u8; 2] = [0x00, 0x3c];
const QUARTER: [u8; 2] = [0x00, 0x34];

/// A block of bytes: pieces at offsets, zeros elsewhere.
fn block(kind: BlockType, pieces: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; kind.bytes()];
    for (at, piece) in pieces {
        bytes[*at..][..piece.len()].copy_from_slice(piece);
    }
    bytes
}

/// Checks single numbers of a block, and that all others have one value.
fn holds(kind: BlockType, pieces: &[(usize, &[u8])], rest: f32, numbers: &[(usize, f32)]) {
    let got = widened(kind, &block(kind, pieces));
    for (i, got) in got.iter().enumerate() {
        let want = numbers.iter().find(|(at, _)| *at == i).map_or(rest, |(_, want)| *want);
        assert_eq!(*got, want, "{kind:?} number {i}");
    }
}

#[test]
fn blocks_of_32_worked_out_by_hand() {
    // 15 − 8 and 1 − 8 halves; a zero byte is twice −8 halves.
    holds(BlockType::Q4_0, &[(0, &HALF), (2, &[0x1f])], -4.0, &[(0, 3.5), (16, -3.5)]);
    holds(BlockType::Q4_1, &[(0, &HALF), (2, &ONE), (4, &[0x2f])], 1.0, &[(0, 8.5), (16, 2.0)]);
    // Fifth bits of numbers 0 and 17: 16 + 3 − 16 and 16 + 5 − 16.
    holds(
        BlockType::Q5_0,
        &[(0, &ONE), (2, &[0x01, 0x00, 0x02, 0x00]), (6, &[0x03, 0x50])],
        -16.0,
        &[(0, 3.0), (17, 5.0)],
    );
    holds(
        BlockType::Q5_1,
        &[(0, &HALF), (2, &QUARTER), (4, &[0x01, 0x00, 0x02, 0x00]), (8, &[0x03, 0x50])],
        0.25,
        &[(0, 9.75), (17, 10.75)],
    );
    holds(BlockType::Q8_0, &[(0, &QUARTER), (2, &[0x80, 0x7f])], 0.0, &[(0, -32.0), (1, 31.75)]);
}

#[test]
fn blocks_of_256_worked_out_by_hand() {
    // d = 1, dmin = ½. Byte 0 of the numbers is 3·64 + 2·16 + 1·4 + 0: one number each of groups 0, 2, 4, 6.
    holds(
        BlockType::Q2_K,
        &[(0, &[0, 0, 3, 0, 0x05, 0, 0x01]), (16, &[0xe4]), (80, &ONE), (82, &HALF)],
        0.0,
        &[(32, 3.0), (64, 10.0), (96, 3.0)],
    );
    // A minimum of 2 halves for all of group 9: numbers 144 to 159.
    let minimum: Vec<(usize, f32)> = (144..160).map(|i| (i, -1.0)).collect();
    holds(BlockType::Q2_K, &[(9, &[0x20]), (80, &ONE), (82, &HALF)], 0.0, &minimum);
    // Scale 33 − 32 for group 0 (low nibble 1, high pair 2), −32 for the others: a number without its third
    // bit is 4 less, so −4 · 1 in group 0 and −4 · −32 elsewhere.
    let mut first: Vec<(usize, f32)> = (0..16).map(|i| (i, -4.0)).collect();
    first[1].1 = 3.0;
    holds(
        BlockType::Q3_K,
        &[(1, &[0x01]), (33, &[0x03]), (96, &[0x01]), (104, &[0x02]), (108, &ONE)],
        128.0,
        &first,
    );
    // Group 0: scale 2, minimum 3; group 5: scale 16 + 4 (high bits of byte 1), minimum 1.
    let mut two: Vec<(usize, f32)> = (0..32).map(|i| (i, -1.5)).collect();
    two[0].1 = 2.0 * 9.0 - 1.5;
    two.extend((160..192).map(|i| (i, -0.5)));
    two[33].1 = 20.0 * 7.0 - 0.5;
    let scales = [0x02, 0x40, 0, 0, 0x03, 0, 0, 0, 0, 0x14];
    let pieces: [(usize, &[u8]); 5] =
        [(0, &ONE), (2, &HALF), (4, &scales), (16, &[0x09]), (16 + 64 + 1, &[0x70])];
    holds(BlockType::Q4_K, &pieces, 0.0, &two);
    // The same with fifth bits of number 0 (bit 0 of byte 0) and number 161 (bit 5 of byte 1).
    two[0].1 = 2.0 * 25.0 - 1.5;
    two[33].1 = 20.0 * 23.0 - 0.5;
    let pieces: [(usize, &[u8]); 6] = [
        (0, &ONE),
        (2, &HALF),
        (4, &scales),
        (16, &[0x01, 0x20]),
        (48, &[0x09]),
        (48 + 64 + 1, &[0x70]),
    ];
    holds(BlockType::Q5_K, &pieces, 0.0, &two);
    // Scale −2 for group of sixteen 0, 1 for number 96's (scale 6); others 0.
    let mut six: Vec<(usize, f32)> = (0..16).map(|i| (i, 64.0)).collect();
    six[0].1 = -2.0 * (1.0 + 48.0 - 32.0);
    six.extend((96..112).map(|i| (i, -32.0)));
    six[16].1 = 2.0 + 16.0 - 32.0;
    // Byte 0: nibble 1 for number 0. Byte 32: high nibble 2 for number 96. High bits: 3 for number 0, 1 for 96.
    holds(
        BlockType::Q6_K,
        &[
            (0, &[0x01]),
            (32, &[0x20]),
            (128, &[0x43]),
            (192, &[0xfe, 0, 0, 0, 0, 0, 0x01]),
            (208, &ONE),
        ],
        0.0,
        &six,
    );
}
