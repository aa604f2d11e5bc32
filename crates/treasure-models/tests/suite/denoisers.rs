//! Denoisers against the logits of their reference implementations.

use std::sync::atomic::{AtomicUsize, Ordering};

use treasure_core::{Bans, Denoiser, Error, Hint as _, MaskedSeq, Question, State, Want, until};
use treasure_models::{Family, LoadOptions, MaskedLm};

use crate::{scalar::Scalar, support::*};

fn load(family: &str) -> MaskedLm {
    MaskedLm::load(&resolver(), &spec(&golden(family)), &options(family)).unwrap()
}

fn masked(ids: &[u32], mask: u32) -> MaskedSeq {
    MaskedSeq::from_slots(ids.iter().map(|&id| (id != mask).then_some(id)))
}

/// Compares all logits of all inputs, the second input of another length among them.
fn logits_match(model: &MaskedLm, family: &str, atol: f32) {
    let io = Io::read(family);
    for prefix in ["", "alt_"] {
        let name = |part: &str| format!("{prefix}{part}");
        let logits = io.numbers(&name("logits"));
        let ids = io.ids(&name("input_ids"));
        let sigma =
            if io.has(&name("sigma")) { io.numbers(&name("sigma")) } else { vec![0.0; ids.len()] };
        let per_row = logits.len() / ids.len();
        for ((ids, expected), sigma) in ids.iter().zip(logits.chunks(per_row)).zip(sigma) {
            let rows: Vec<usize> = (0..ids.len()).collect();
            let got = model.raw_logits(ids, &rows, sigma).unwrap();
            let off = distance(&got, expected);
            assert!(off <= atol, "{family} {prefix}logits are off by {off}, allowed are {atol}");
        }
    }
}

#[test]
fn logits_match_the_reference_for_every_family() {
    for family in DENOISERS {
        logits_match(&load(family), family, tolerance(family));
    }
}

#[test]
fn logits_match_the_reference_with_configs_of_transformers_5() {
    for family in ["bert_mlm", "bert_mlm_legacy", "modernbert_mlm"] {
        let dir = with_new_config(family);
        let model = MaskedLm::load(&resolver(), &spec(dir.path()), &options(family)).unwrap();
        logits_match(&model, family, tolerance(family));
    }
}

#[test]
fn another_executor_gives_the_numbers_of_every_family() {
    for family in DENOISERS {
        let (resolver, spec) = (resolver(), spec(&golden(family)));
        let model = MaskedLm::load_on(&Scalar, &resolver, &spec, &options(family)).unwrap();
        assert_eq!(model.describe().executor.unwrap().name, "scalar");
        logits_match(&model, family, tolerance(family));
    }
}

/// Log-probabilities without the mask token, from raw logits, in f64.
fn constrained(logits: &[f32], mask: u32) -> Vec<f64> {
    let kept = |(i, _): &(usize, &f32)| *i != mask as usize;
    let sum: f64 = logits.iter().enumerate().filter(kept).map(|(_, &x)| f64::from(x).exp()).sum();
    logits.iter().map(|&x| f64::from(x) - sum.ln()).collect()
}

#[test]
fn answers_at_masked_positions_follow_the_shifted_logits_without_the_mask_token() {
    for family in DENOISERS {
        let model = load(family);
        let io = Io::read(family);
        let shifted = io.has("shifted_logits");
        let logits = io.numbers(if shifted { "shifted_logits" } else { "logits" });
        let vocabulary = model.facts().vocab_size;
        let all = io.ids("input_ids");
        let len = all[0].len();
        for (row, ids) in all.iter().enumerate() {
            let seq = masked(ids, model.mask_id());
            let sigma = if io.has("sigma") { f64::from(io.numbers("sigma")[row]) } else { 0.0 };
            let encoding = model.encode_at_sigma(&[&seq], sigma).unwrap().remove(0);
            let asked: Vec<(usize, u32)> = seq
                .masked()
                .flat_map(|position| (0..vocabulary as u32).map(move |token| (position, token)))
                .collect();
            let want = Want { argmax: true, confidence: true, logprobs: &asked, ..Want::default() };
            let bans = Bans::none();
            let question = Question { seq: &seq, encoding: &encoding, bans: &bans, want };
            let answer = model.read(&[question]).unwrap().remove(0);
            assert_eq!(answer.argmax.len(), seq.n_masked());
            for ((position, token), got) in asked.iter().zip(&answer.logprobs) {
                if *token == model.mask_id() {
                    assert_eq!(*got, f64::NEG_INFINITY, "{family}: the mask token has no mass");
                    continue;
                }
                let at = (row * len + position) * vocabulary;
                let expected = constrained(&logits[at..at + vocabulary], model.mask_id());
                let off = (expected[*token as usize] - got).abs();
                assert!(
                    off <= f64::from(tolerance(family)) * 2.0,
                    "{family} row {row} position {position} token {token}: off by {off}"
                );
            }
        }
    }
}

#[test]
fn mdlm_follows_its_time_through_the_log_linear_schedule() {
    let model = load("mdlm_sigma");
    assert!(!model.facts().time_agnostic);
    let seq = masked(&Io::read("mdlm_sigma").ids("input_ids")[0], model.mask_id());
    let t = 0.6;
    let sigma = -(1.0f64 - (1.0 - 1e-3) * t).ln();
    let by_time = model.encode(&[State { seq: &seq, t }]).unwrap();
    let by_sigma = model.encode_at_sigma(&[&seq], sigma).unwrap();
    let other = model.encode_at_sigma(&[&seq], 0.1).unwrap();
    let top = |encoding| {
        let position = seq.masked().next().unwrap();
        let top = [treasure_core::At { position, k: 3 }];
        let want = Want { top: &top, ..Want::default() };
        let bans = Bans::none();
        model.read(&[Question { seq: &seq, encoding, bans: &bans, want }]).unwrap()
    };
    assert_eq!(top(&by_time[0]), top(&by_sigma[0]));
    assert_ne!(top(&by_time[0]), top(&other[0]));
}

#[test]
fn every_denoiser_obeys_the_laws() {
    for family in DENOISERS {
        let model = load(family);
        let states: Vec<MaskedSeq> = Io::read(family)
            .ids("input_ids")
            .iter()
            .map(|ids| masked(ids, model.mask_id()))
            .chain([masked(&Io::read(family).ids("alt_input_ids")[0], model.mask_id())])
            .filter(|seq| seq.n_masked() > 0)
            .collect();
        let bans = Bans::none().everywhere(7).before(9, 5);
        treasure_testkit::laws::denoiser_obeys_the_laws(&model, &states, &bans);
    }
}

#[test]
fn a_model_that_predicts_from_the_token_before_refuses_a_masked_start() {
    let model = load("diffugpt");
    assert!(model.needs_first_token());
    let error = model.encode(&[State { seq: &MaskedSeq::empty(4), t: 1.0 }]).unwrap_err();
    assert!(error.to_string().contains("position 0: expected a given token"), "{error}");
    let model = load("dream");
    assert!(model.encode(&[State { seq: &MaskedSeq::empty(4), t: 1.0 }]).is_ok());
}

#[test]
fn plain_llama_files_become_a_denoiser_on_request() {
    let path = spec(&golden("llama"));
    let options = LoadOptions {
        as_kind: Some(Family::DiffuLlama),
        mask_id: Some(11),
        ..LoadOptions::default()
    };
    let model = MaskedLm::load(&resolver(), &path, &options).unwrap();
    assert!(model.needs_first_token());
    // A full view: the last token changes what is said about the first.
    let one = model.raw_logits(&[1, 2, 3, 4], &[0], 0.0).unwrap();
    let two = model.raw_logits(&[1, 2, 3, 5], &[0], 0.0).unwrap();
    assert!(distance(&one, &two) > 1e-3);
    let error = MaskedLm::load(&resolver(), &path, &LoadOptions::default()).unwrap_err();
    assert!(error.hint().unwrap().contains("read as diffullama, with mask id 811"), "{error}");
}

#[test]
fn sequences_beyond_the_longest_are_refused() {
    let model = load("bert_mlm");
    let error = model.encode(&[State { seq: &MaskedSeq::empty(33), t: 1.0 }]).unwrap_err();
    assert!(error.to_string().contains("at most 32 tokens, got 33"), "{error}");
}

#[test]
fn a_token_outside_the_vocabulary_is_refused() {
    let model = load("llada");
    let seq = MaskedSeq::from_slots([Some(100_000), None]);
    let error = model.encode(&[State { seq: &seq, t: 1.0 }]).unwrap_err();
    assert!(error.to_string().contains("100000"), "{error}");
}

#[test]
fn a_description_says_what_the_model_is() {
    let description = load("llada").describe();
    assert_eq!(description.architecture, Family::Llada);
    assert_eq!(description.parameters, 53904);
    assert_eq!(description.vocabulary, Some(127));
    assert_eq!(description.mask_id, Some(122));
    assert_eq!(description.dtype.name(), "f32");
    for family in DENOISERS {
        let expected = meta(family)["n_params"].as_u64().unwrap();
        let got = load(family).describe().parameters;
        // mdlm's inverse frequencies are a buffer, not parameters.
        let buffer = if family.starts_with("mdlm") { 6 } else { 0 };
        assert_eq!(got, expected + buffer, "{family}");
    }
}

#[test]
fn an_inspection_says_the_same_without_reading_weights() {
    for family in DENOISERS {
        let path = spec(&golden(family));
        let loaded = load(family).describe();
        let looked_at = treasure_models::inspect(&resolver(), &path, &options(family)).unwrap();
        assert_eq!(looked_at.parameters, loaded.parameters, "{family}");
        assert_eq!(looked_at.vocabulary, loaded.vocabulary, "{family}");
        assert_eq!(looked_at.mask_id, loaded.mask_id, "{family}");
        assert_eq!(looked_at.layers, loaded.layers, "{family}");
        assert_eq!(looked_at.max_length, loaded.max_length, "{family}");
    }
    // Without a mask token there is no denoiser, but there is something to say about it.
    let path = spec(&golden("bert_mlm"));
    let looked_at = treasure_models::inspect(&resolver(), &path, &LoadOptions::default()).unwrap();
    assert_eq!(looked_at.mask_id, None);
    assert_eq!(looked_at.vocabulary, Some(109));
}

#[test]
fn the_licence_is_the_one_the_model_card_states() {
    let dir = copy(&golden("llada"));
    let card = "---\nlanguage: en\nlicense: apache-2.0\n---\n# A model\nlicense: none\n";
    std::fs::write(dir.path().join("README.md"), card).unwrap();
    let model = MaskedLm::load(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap();
    assert_eq!(model.describe().licence.as_deref(), Some("apache-2.0"));
    assert_eq!(load("llada").describe().licence, None);
    let card = "---\nlicense: other\nlicense_name: research-use\n---\n# A model\n";
    std::fs::write(dir.path().join("README.md"), card).unwrap();
    let model = MaskedLm::load(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap();
    assert_eq!(model.describe().licence.as_deref(), Some("research-use"));
}

#[test]
fn a_forward_pass_that_nobody_waits_for_ends_before_its_next_layer() {
    let model = load("llada");
    let seq = MaskedSeq::from_slots([Some(5), None, None, Some(7)]);
    let looks = AtomicUsize::new(0);
    let run = |most: usize| {
        looks.store(0, Ordering::Relaxed);
        let stopped = || looks.fetch_add(1, Ordering::Relaxed) >= most;
        until(&stopped, || model.encode(&[State { seq: &seq, t: 0.5 }]))
    };
    assert!(run(usize::MAX).is_ok());
    let all = looks.load(Ordering::Relaxed);
    assert!(all >= 2, "it looks before every layer, {all} times");
    for most in 0..all {
        assert!(matches!(run(most), Err(Error::GivenUp { .. })), "stopped at look {most}");
        assert_eq!(looks.load(Ordering::Relaxed), most + 1, "and asks no further");
    }
}
