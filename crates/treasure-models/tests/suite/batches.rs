//! Batches that change nothing: scores do not move with the batch's size, its order or its neighbours'
//! lengths (there is no padding to see), on LLaDA- and Dream-shaped checkpoints in every precision.

use std::path::Path;

use treasure_core::{Bans, Denoiser, MaskedSeq, Question, State, Want};
use treasure_models::{Dtype, LoadOptions, MaskedLm, exec::Precision};

use crate::{
    gguf::{KINDS, denoiser_as_gguf},
    support::*,
};

/// States of different lengths and different masks.
fn states() -> Vec<MaskedSeq> {
    (0..9usize)
        .map(|n| {
            let slot = |at: usize| {
                (at * 7 + n).is_multiple_of(3).then_some(((at * 31 + n * 17) % 90) as u32)
            };
            MaskedSeq::from_slots((0..4 + 3 * n).map(slot))
        })
        .collect()
}

/// All logits at every mask of each state, run as one batch, bit by bit.
fn rows(model: &MaskedLm, states: &[&MaskedSeq]) -> Vec<Vec<Vec<u32>>> {
    let batch: Vec<State<'_>> = states.iter().map(|seq| State { seq, t: 0.5 }).collect();
    let encodings = model.encode(&batch).unwrap();
    let masks: Vec<Vec<usize>> = states.iter().map(|seq| seq.masked().collect()).collect();
    let bans = Bans::none();
    let questions: Vec<Question<'_>> = (states.iter().zip(&encodings).zip(&masks))
        .map(|((seq, encoding), rows)| Question {
            seq,
            encoding,
            bans: &bans,
            want: Want { rows, ..Want::default() },
        })
        .collect();
    let bits = |row: Vec<f32>| row.into_iter().map(f32::to_bits).collect();
    let answers = model.read(&questions).unwrap().into_iter();
    answers.map(|answer| answer.rows.into_iter().map(bits).collect()).collect()
}

/// Loads a checkpoint and asks for its logits alone, in batches of several sizes, backwards and twice over.
fn same_in_any_company(place: &Path, options: &LoadOptions) {
    let model = MaskedLm::load(&resolver(), &spec(place), options).unwrap();
    let what = format!("{} {} {}", place.display(), options.dtype, options.precision);
    let states = states();
    let alone: Vec<_> = states.iter().flat_map(|seq| rows(&model, &[seq])).collect();
    for size in [2, 3, 9] {
        let together: Vec<_> = (states.chunks(size))
            .flat_map(|chunk| rows(&model, &chunk.iter().collect::<Vec<_>>()))
            .collect();
        assert_eq!(alone, together, "{what}, batches of {size}");
    }
    let backwards: Vec<&MaskedSeq> = states.iter().rev().collect();
    let mut turned = rows(&model, &backwards);
    turned.reverse();
    assert_eq!(alone, turned, "{what}, backwards");
    let again: Vec<&MaskedSeq> = states.iter().chain(&states).collect();
    let twice = rows(&model, &again);
    assert_eq!(alone, twice[..9], "{what}, twice");
    assert_eq!(alone, twice[9..], "{what}, twice");
}

#[test]
fn logits_do_not_move_with_batch_size_order_or_neighbours_in_any_precision() {
    for family in ["llada", "llada_gqa", "dream"] {
        for (dtype, precision) in [
            (Dtype::F32, Precision::F32),
            (Dtype::F16, Precision::F32),
            (Dtype::Bf16, Precision::F32),
            (Dtype::Int8, Precision::F32),
            (Dtype::File, Precision::F32),
            (Dtype::File, Precision::Bf16),
            (Dtype::Auto, Precision::Bf16),
            (Dtype::Auto, Precision::Int8),
        ] {
            let options = LoadOptions { dtype, precision, ..LoadOptions::default() };
            same_in_any_company(&golden(family), &options);
        }
    }
}

#[test]
fn logits_do_not_move_with_the_batch_for_any_block_type_of_gguf_in_any_precision() {
    for family in ["llada", "dream"] {
        for kind in KINDS {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(format!("{family}-{kind:?}.gguf"));
            denoiser_as_gguf(family, kind, &[], &path);
            for (dtype, precision) in [
                (Dtype::Auto, Precision::F32),
                (Dtype::File, Precision::F32),
                (Dtype::File, Precision::Bf16),
                (Dtype::Auto, Precision::Int8),
            ] {
                let options = LoadOptions { dtype, precision, ..LoadOptions::default() };
                same_in_any_company(&path, &options);
            }
        }
    }
}
