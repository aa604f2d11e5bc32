//! Classifiers against the logits of transformers.

use treasure_models::{Classifier, LoadOptions};

use crate::{scalar::Scalar, support::*};

fn load(family: &str) -> Classifier {
    Classifier::load(&resolver(), &spec(&golden(family)), &LoadOptions::default()).unwrap()
}

fn matches(model: &Classifier, family: &str) {
    let (io, atol) = (Io::read(family), tolerance(family));
    for row in 0..3 {
        let ids = &io.ids(&format!("row{row}_input_ids"))[0];
        let got = model.logits_ids(&[ids]).unwrap().concat();
        let off = distance(&got, &io.numbers(&format!("row{row}_logits")));
        assert!(off <= atol, "{family} row {row} is off by {off}, allowed are {atol}");
    }
}

#[test]
fn logits_match_transformers() {
    for family in CLASSIFIERS {
        matches(&load(family), family);
    }
}

#[test]
fn logits_match_with_configs_of_transformers_5() {
    for family in CLASSIFIERS {
        let dir = with_new_config(family);
        let options = LoadOptions::default();
        matches(&Classifier::load(&resolver(), &spec(dir.path()), &options).unwrap(), family);
    }
}

#[test]
fn another_executor_gives_the_numbers_of_every_family() {
    for family in CLASSIFIERS {
        let (resolver, spec) = (resolver(), spec(&golden(family)));
        let model =
            Classifier::load_on(&Scalar, &resolver, &spec, &LoadOptions::default()).unwrap();
        matches(&model, family);
    }
}

#[test]
fn a_batch_of_different_lengths_gives_bitwise_the_numbers_of_each_row_and_those_of_a_padded_batch()
{
    for family in CLASSIFIERS {
        let (model, io) = (load(family), Io::read(family));
        let rows: Vec<Vec<u32>> =
            (0..3).map(|row| io.ids(&format!("row{row}_input_ids")).remove(0)).collect();
        let views: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let together = model.logits_ids(&views).unwrap();
        for (row, got) in views.iter().zip(&together) {
            assert_eq!(&model.logits_ids(&[row]).unwrap()[0], got, "{family}");
        }
        // The reference ran the same rows padded to one length.
        let off = distance(&together.concat(), &io.numbers("logits"));
        assert!(off <= tolerance(family), "{family} padded is off by {off}");
    }
}

#[test]
fn texts_get_the_reference_log_probabilities() {
    let model = load("roberta_cls");
    for sample in meta("roberta_cls")["text_samples"].as_array().unwrap() {
        let text = sample["text"].as_str().unwrap();
        let ids = model.ids(text).unwrap();
        let expected: Vec<u64> =
            sample["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        assert!(ids.iter().map(|&id| u64::from(id)).eq(expected), "{text:?}: {ids:?}");
        let got = &model.log_probs_ids(&[&ids]).unwrap()[0];
        for (got, expected) in got.iter().zip(sample["log_softmax"].as_array().unwrap()) {
            assert!((got - expected.as_f64().unwrap()).abs() < 2e-5, "{text:?}");
        }
    }
}

#[test]
fn labels_come_from_the_config_or_are_made_up_like_transformers_does() {
    assert_eq!(load("roberta_cls").labels(), ["LABEL_0", "LABEL_1", "LABEL_2"]);
    assert_eq!(load("bert_cls").labels(), ["LABEL_0", "LABEL_1"]);
    let model = load("bert_cls");
    assert_eq!(model.label("LABEL_1").unwrap(), 1);
    assert_eq!(model.label("0").unwrap(), 0);
    let error = model.label("joy").unwrap_err().to_string();
    assert!(error.contains("LABEL_0, LABEL_1"), "{error}");
}

#[test]
fn a_window_cuts_the_text_and_keeps_the_special_tokens() {
    let text = "Once upon a time the president said: it's good!";
    let whole = load("roberta_cls").ids(text).unwrap();
    let cut = load("roberta_cls").ids_within(&[text], 8).unwrap().remove(0);
    assert_eq!(cut.len(), 8);
    assert_eq!(cut[..7], whole[..7]);
    assert_eq!(cut[7], *whole.last().unwrap());
}

#[test]
fn a_text_beyond_the_longest_sequence_is_an_error_without_a_window() {
    let model = load("roberta_cls");
    let long = "lake ".repeat(200);
    let error = model.ids(&long).unwrap_err();
    assert!(error.to_string().contains("at most 64 tokens"), "{error}");
    let cut = model.ids_within(&[&long], usize::MAX).unwrap();
    assert_eq!(cut[0].len(), 64);
    assert!(model.log_probs_ids(&[&cut[0]]).is_ok());
}

#[test]
fn labels_of_a_multi_label_model_do_not_share_their_mass() {
    let dir = copy(&golden("bert_cls"));
    edit_json(&dir.path().join("config.json"), |config| {
        config["problem_type"] = "multi_label_classification".into();
    });
    let model = Classifier::load(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap();
    let logits = model.logits_ids(&[&[1, 2, 3]]).unwrap().remove(0);
    let got = model.log_probs_ids(&[&[1, 2, 3]]).unwrap().remove(0);
    for (x, got) in logits.iter().zip(got) {
        let expected = (1.0 / (1.0 + (-f64::from(*x)).exp())).ln();
        assert!((got - expected).abs() < 1e-9);
    }
}
