//! Batches that change nothing: scores do not move with the batch's size, its order or its neighbours'
//! lengths (there is no padding to see), on LLaDA- and Dream-shaped checkpoints in every precision.

use std::path::Path;

use treasure_core::{Bans, Denoiser, Encoding, MaskedSeq, Question, State, Want};
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
    read_rows(model, states, &model.encode(&batch).unwrap())
}

fn read_rows(
    model: &MaskedLm,
    states: &[&MaskedSeq],
    encodings: &[Encoding],
) -> Vec<Vec<Vec<u32>>> {
    let masks: Vec<Vec<usize>> = states.iter().map(|seq| seq.masked().collect()).collect();
    let bans = Bans::none();
    let questions: Vec<Question<'_>> = (states.iter().zip(encodings).zip(&masks))
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

#[test]
fn a_pass_that_goes_on_from_one_over_the_same_tokens_says_the_same_in_any_precision() {
    for family in ["llada", "llada_gqa", "dream", "mdlm", "bert_mlm"] {
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            let options = LoadOptions { precision, ..options(family) };
            let model = MaskedLm::load(&resolver(), &spec(&golden(family)), &options).unwrap();
            assert!(model.reuses());
            let states = states();
            let all: Vec<&MaskedSeq> = states.iter().collect();
            let batch: Vec<State<'_>> = states.iter().map(|seq| State { seq, t: 0.5 }).collect();
            let exact = rows(&model, &all);
            let first = model.encode_after(&batch, &vec![None; batch.len()]).unwrap();
            assert_eq!(
                read_rows(&model, &all, &first),
                exact,
                "{family} {precision}, from nothing"
            );
            let before: Vec<_> = first.iter().map(Some).collect();
            let second = model.encode_after(&batch, &before).unwrap();
            assert_eq!(
                read_rows(&model, &all, &second),
                exact,
                "{family} {precision}, the same again"
            );
        }
    }
}

#[test]
fn a_pass_that_goes_on_from_another_is_near_it_and_the_same_in_any_batch() {
    let model = MaskedLm::load(&resolver(), &spec(&golden("llada")), &options("llada")).unwrap();
    let parents = states();
    let children: Vec<MaskedSeq> = (parents.iter())
        .map(|seq| seq.reveal(seq.masked().next().expect("a mask"), 5))
        .filter(|seq| seq.n_masked() > 0)
        .collect();
    let parents = &parents[parents.len() - children.len()..];
    let state = |seq| State { seq, t: 0.5 };
    let of_parents: Vec<Encoding> = model
        .encode_after(&parents.iter().map(state).collect::<Vec<_>>(), &[None; 9][..parents.len()])
        .unwrap();
    let batch: Vec<State<'_>> = children.iter().map(state).collect();
    let before: Vec<_> = of_parents.iter().map(Some).collect();
    let all: Vec<&MaskedSeq> = children.iter().collect();
    let together = read_rows(&model, &all, &model.encode_after(&batch, &before).unwrap());
    let exact = rows(&model, &all);
    assert_ne!(together, exact, "keys and values of the others have moved");
    let value = |bits: &u32| f64::from(f32::from_bits(*bits));
    let (mut off, mut size) = (0.0, 0.0);
    let pairs = together.iter().flatten().flatten().zip(exact.iter().flatten().flatten());
    // Tokens that are never emitted are at −∞ in both.
    for (a, b) in pairs.map(|(a, b)| (value(a), value(b))).filter(|pair| pair.0 != pair.1) {
        off += (a - b).powi(2);
        size += b.powi(2);
    }
    assert!(off < 0.01 * size, "{off} of {size}");
    for (i, state) in batch.iter().enumerate() {
        let alone = model.encode_after(&[*state], &before[i..=i]).unwrap();
        assert_eq!(read_rows(&model, &all[i..=i], &alone)[0], together[i]);
    }
    // What does not fit is not used.
    let wrong = model.encode_after(&batch[..1], &before[1..2]).unwrap();
    assert_eq!(read_rows(&model, &all[..1], &wrong), rows(&model, &all[..1]));
}

#[test]
fn a_model_that_looks_at_the_time_does_not_go_on_from_earlier_passes() {
    let family = "mdlm_sigma";
    let model = MaskedLm::load(&resolver(), &spec(&golden(family)), &options(family)).unwrap();
    assert!(!model.reuses());
}
