//! Autoregressive scorers against the logits and likelihoods of transformers.

use treasure_models::{LoadOptions, Scorer, mean_nll};

use crate::{scalar::Scalar, support::*};

fn load(family: &str) -> Scorer {
    Scorer::load(&resolver(), &spec(&golden(family)), &LoadOptions::default()).unwrap()
}

fn matches(model: &Scorer, family: &str) {
    let (io, atol) = (Io::read(family), tolerance(family));
    for prefix in ["", "alt_"] {
        let ids = io.ids(&format!("{prefix}input_ids"));
        let logits = io.numbers(&format!("{prefix}logits"));
        for (ids, expected) in ids.iter().zip(logits.chunks(logits.len() / ids.len())) {
            let off = distance(&model.raw_logits(ids).unwrap(), expected);
            assert!(off <= atol, "{family} {prefix}logits are off by {off}, allowed are {atol}");
        }
        let views: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
        let got = model.nll(&views).unwrap();
        let got: Vec<f32> = got.concat().iter().map(|&x| x as f32).collect();
        let off = distance(&got, &io.numbers(&format!("{prefix}nll")));
        assert!(off <= atol, "{family} {prefix}nll is off by {off}, allowed are {atol}");
    }
}

#[test]
fn logits_and_likelihoods_match_transformers() {
    for family in SCORERS {
        matches(&load(family), family);
    }
}

#[test]
fn another_executor_gives_the_numbers_of_every_family() {
    for family in SCORERS {
        let (resolver, spec) = (resolver(), spec(&golden(family)));
        let model = Scorer::load_on(&Scalar, &resolver, &spec, &LoadOptions::default()).unwrap();
        matches(&model, family);
    }
}

#[test]
fn logits_and_likelihoods_match_with_configs_of_transformers_5() {
    for family in SCORERS {
        let dir = with_new_config(family);
        let model = Scorer::load(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap();
        matches(&model, family);
    }
}

#[test]
fn likelihoods_are_bitwise_those_of_each_sequence_alone() {
    for family in SCORERS {
        let model = load(family);
        let io = Io::read(family);
        let mut batch = io.ids("input_ids");
        // Siblings that differ in the middle, a repetition, a prefix, one token, none.
        let mut sibling = batch[0].clone();
        sibling[7] = (sibling[7] + 1) % 100;
        batch.extend([sibling, batch[0].clone(), batch[0][..5].to_vec(), vec![3], vec![]]);
        let views: Vec<&[u32]> = batch.iter().map(Vec::as_slice).collect();
        let together = model.nll(&views).unwrap();
        for (ids, got) in views.iter().zip(&together) {
            assert_eq!(&model.nll(&[ids]).unwrap()[0], got, "{family} {ids:?}");
            assert_eq!(got.len(), ids.len().saturating_sub(1));
        }
    }
}

#[test]
fn the_mean_of_no_token_is_not_a_number_but_nothing() {
    assert_eq!(mean_nll(&[]), None);
    assert_eq!(mean_nll(&[1.0, 3.0]), Some(2.0));
}

#[test]
fn a_classifier_is_no_scorer_and_the_error_says_what_it_is() {
    let error =
        Scorer::load(&resolver(), &spec(&golden("bert_cls")), &LoadOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("an autoregressive scorer"), "{text}");
    assert!(text.contains("a sequence classifier (bert-classifier)"), "{text}");
}
