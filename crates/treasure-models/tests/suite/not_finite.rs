//! A number that is none is refused where it arises, in every family: at load with the tensor's name, in a
//! forward pass with the row. It never becomes a plausible score.

use candle_core::{DType, Device, Tensor};
use tempfile::TempDir;
use treasure_core::{Denoiser as _, Hint as _, MaskedSeq, State};
use treasure_models::{Classifier, Error, LoadOptions, MaskedLm, Scorer, Source, weights::Weights};

use crate::support::*;

/// Loads a folder as what its family is.
fn load(family: &str, dir: &TempDir) -> Result<(), treasure_models::Error> {
    let (resolver, spec, options) = (resolver(), spec(dir.path()), options(family));
    if DENOISERS.contains(&family) {
        MaskedLm::load(&resolver, &spec, &options).map(drop)
    } else if SCORERS.contains(&family) {
        Scorer::load(&resolver, &spec, &options).map(drop)
    } else {
        Classifier::load(&resolver, &spec, &options).map(drop)
    }
}

/// A copy of a tensor with one number replaced.
fn with_one(tensor: &Tensor, at: usize, value: f32) -> Tensor {
    let mut values: Vec<f32> =
        tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    values[at] = value;
    Tensor::from_vec(values, tensor.dims(), &Device::Cpu).unwrap()
}

#[test]
fn every_family_refuses_every_weight_that_is_no_number_by_its_name() {
    for family in DENOISERS.into_iter().chain(SCORERS).chain(CLASSIFIERS) {
        if family == "llada_gqa" {
            continue; // In shards, which the other LLaDA is not.
        }
        let listed = Weights::open(&Source::Directory(golden(family))).unwrap();
        // The first and the last tensor by name, and all vectors: norms and biases.
        let names: Vec<&String> = listed.tensors().keys().collect();
        let vectors = listed.tensors().iter().filter(|(_, info)| info.shape.len() == 1);
        let mut chosen: Vec<String> = vectors.map(|(name, _)| name.clone()).step_by(3).collect();
        chosen.extend([names[0].clone(), names[names.len() - 1].clone()]);
        for name in chosen {
            let stored = listed.tensors()[&name].stored.to_string();
            let unused =
                ["seq_relationship", "bert.pooler", ".attn.bias", "decoder.bias", "inv_freq"];
            if stored != "f32" || unused.iter().any(|u| name.contains(u)) {
                continue;
            }
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let dir = copy(&golden(family));
                edit_tensors(dir.path(), |tensors| {
                    let count = tensors[&name].elem_count();
                    let other = with_one(&tensors[&name], count - 1, value);
                    tensors.insert(name.clone(), other);
                });
                let error = load(family, &dir).expect_err(&name);
                assert!(matches!(error, Error::NotFinite(_)));
                let error = error.to_string();
                let expected = format!("tensor {name}, row ");
                assert!(error.contains(&expected), "{family} {value}: {error}");
                assert!(
                    error.contains(&format!("expected finite numbers, got {value}")),
                    "{error}"
                );
            }
        }
    }
}

/// Gives a tensor numbers so large that what it makes overflows, though they are finite themselves.
fn overflowing(family: &str, name: &str) -> TempDir {
    let dir = copy(&golden(family));
    edit_tensors(dir.path(), |tensors| {
        let huge = (tensors[name].ones_like().unwrap() * 3e38).unwrap();
        tensors.insert(name.to_owned(), huge);
    });
    dir
}

#[test]
fn a_forward_pass_that_overflows_is_an_error_and_names_the_row() {
    let name = "distilbert.embeddings.LayerNorm.weight";
    let dir = overflowing("distilbert_cls", name);
    let options = LoadOptions::default();
    let judge = Classifier::load(&resolver(), &spec(dir.path()), &options).unwrap();
    let error = judge.log_probs_ids(&[&[1, 2, 3], &[4, 5]]).unwrap_err().to_string();
    assert!(
        error.contains("sequence 0, hidden state of position 0: expected finite numbers"),
        "{error}"
    );

    // ReLU must not hide it either: only the layer before the classifier overflows here.
    let dir = overflowing("distilbert_cls", "pre_classifier.weight");
    let judge = Classifier::load(&resolver(), &spec(dir.path()), &options).unwrap();
    let error = judge.log_probs_ids(&[&[1, 2, 3]]).unwrap_err().to_string();
    assert!(error.contains("dense layer of row 0: expected finite numbers"), "{error}");

    let dir = overflowing("gpt2", "transformer.wte.weight");
    let scorer = Scorer::load(&resolver(), &spec(dir.path()), &options).unwrap();
    let error = scorer.nll(&[&[1, 2, 3]]).unwrap_err().to_string();
    assert!(error.contains("expected finite numbers"), "{error}");

    let dir = overflowing("llada", "model.transformer.blocks.0.ff_out.weight");
    let model = MaskedLm::load(&resolver(), &spec(dir.path()), &options).unwrap();
    let seq = MaskedSeq::from_slots([Some(3), None, Some(5)]);
    let error = model.encode(&[State { seq: &seq, t: 0.5 }]).err().unwrap().to_string();
    assert!(
        error.contains("sequence 0, hidden state of position 1: expected finite numbers"),
        "{error}"
    );
}

#[test]
fn control_characters_of_a_checkpoint_never_reach_a_message_or_a_listing() {
    let escape = "\u{1b}[31mred\u{7}";
    let raw = |text: &str| text.chars().any(char::is_control);
    let dir = copy(&golden("bert_cls"));
    let config = dir.path().join("config.json");
    let good = std::fs::read(&config).unwrap();
    let message = |dir: &TempDir| {
        let error = Classifier::load(&resolver(), &spec(dir.path()), &LoadOptions::default())
            .expect_err("loading must fail");
        let mut text = error.to_string();
        let mut next = std::error::Error::source(&error);
        while let Some(source) = next {
            text += &source.to_string();
            next = source.source();
        }
        text + &error.hint().unwrap_or_default()
    };
    for (key, value) in [
        ("model_type", serde_json::json!(escape)),
        ("hidden_act", serde_json::json!(escape)),
        ("hidden_size", serde_json::json!(escape)),
        ("id2label", serde_json::json!({"0": escape})),
        ("position_embedding_type", serde_json::json!(escape)),
    ] {
        std::fs::write(&config, &good).unwrap();
        edit_json(&config, |config| config[key] = value);
        let text = message(&dir);
        assert!(!raw(&text), "{key}: {text:?}");
    }
    std::fs::write(&config, &good).unwrap();
    edit_json(&config, |config| {
        config["id2label"] = serde_json::json!({"0": escape, "1": "fine"});
    });
    std::fs::write(dir.path().join("README.md"), format!("---\nlicense: {escape}\n---\n")).unwrap();
    let model = Classifier::load(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap();
    let description = model.describe();
    assert_eq!(model.labels()[0], "\\u{1b}[31mred\\u{7}");
    assert_eq!(description.labels[0], "\\u{1b}[31mred\\u{7}");
    assert_eq!(description.licence.as_deref(), Some("\\u{1b}[31mred\\u{7}"));
    edit_tensors(dir.path(), |tensors| {
        let zeros = Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap();
        tensors.insert(escape.to_owned(), zeros);
    });
    let text = message(&dir);
    assert!(!raw(&text) && text.contains("1 unexpected (\\u{1b}[31mred\\u{7})"), "{text:?}");
}
