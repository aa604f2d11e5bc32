//! Bad input gets a clear error: what is wrong, what was expected, what to do.

use std::{fs, path::Path};

use candle_core::{DType, Device, Tensor};
use serde_json::json;
use tempfile::TempDir;
use treasure_core::Hint as _;
use treasure_models::{Classifier, Error, LoadOptions, MaskedLm, Scorer, config::Config};

use crate::support::*;

fn load(dir: &Path) -> Result<MaskedLm, Error> {
    MaskedLm::load(&resolver(), &spec(dir), &LoadOptions::default())
}

/// The message of a load that must fail.
fn message(dir: &TempDir) -> String {
    load(dir.path()).expect_err("loading must fail").to_string()
}

fn weights(dir: &TempDir) -> std::path::PathBuf {
    dir.path().join("model.safetensors")
}

#[test]
fn a_truncated_safetensors_file_is_named_with_its_sizes() {
    let dir = copy(&golden("llada"));
    let bytes = fs::read(weights(&dir)).unwrap();
    for cut in [0, 4, 8, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(weights(&dir), &bytes[..cut]).unwrap();
        let text = message(&dir);
        assert!(text.contains("model.safetensors"), "{cut}: {text}");
    }
}

/// A safetensors file with this header and `data` bytes of zeros.
fn lie(dir: &TempDir, header: &str, data: usize) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    fs::write(weights(dir), bytes).unwrap();
}

#[test]
fn a_lying_safetensors_header_is_refused_before_anything_is_allocated() {
    let dir = copy(&golden("llada"));
    fs::write(weights(&dir), [0xff; 64]).unwrap();
    assert!(message(&dir).contains("claims 18446744073709551615 bytes"));
    for (header, expected) in [
        ("[]", "not a JSON object"),
        ("{\"a\"", "not a JSON object"),
        (r#"{"a": 1}"#, "entry of tensor a is malformed"),
        (r#"{"a": {"dtype":"F32","shape":[2],"data_offsets":[0,99999]}}"#, "claims bytes 0..99999"),
        (r#"{"a": {"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, "claims bytes 8..0"),
        (r#"{"a": {"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#, "needs 12 bytes"),
        (
            r#"{"a": {"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#,
            "has shape",
        ),
        (
            r#"{"a": {"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                "b": {"dtype":"F32","shape":[1],"data_offsets":[2,6]}}"#,
            "share the bytes",
        ),
    ] {
        lie(&dir, header, 16);
        let text = message(&dir);
        assert!(text.contains(expected), "{header}: {text}");
    }
}

#[test]
fn all_missing_extra_and_misshapen_tensors_are_named_at_once() {
    let dir = copy(&golden("llada"));
    edit_tensors(dir.path(), |tensors| {
        tensors.remove("model.transformer.ln_f.weight");
        tensors.remove("model.transformer.blocks.1.k_proj.weight");
        let zeros = Tensor::zeros((2, 3), DType::F32, &Device::Cpu).unwrap();
        tensors.insert("surprise".to_owned(), zeros.clone());
        tensors.insert("another".to_owned(), zeros.clone());
        tensors.insert("model.transformer.wte.weight".to_owned(), zeros);
    });
    let text = message(&dir);
    for part in [
        "2 missing (model.transformer.blocks.1.k_proj.weight, model.transformer.ln_f.weight)",
        "1 misshapen (model.transformer.wte.weight: expected [127, 48], got [2, 3])",
        "2 unexpected (another, surprise)",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn integer_weights_are_named() {
    let dir = copy(&golden("llada"));
    edit_tensors(dir.path(), |tensors| {
        let name = "model.transformer.ln_f.weight";
        let integers = Tensor::zeros(48, DType::I64, &Device::Cpu).unwrap();
        tensors.insert(name.to_owned(), integers);
    });
    assert!(message(&dir).contains("ln_f.weight: expected floating-point numbers, got I64"));
}

#[test]
fn buffers_and_heads_that_old_files_carry_are_no_surprise() {
    let dir = copy(&golden("bert_cls"));
    edit_tensors(dir.path(), |tensors| {
        let positions = Tensor::zeros((1, 32), DType::I64, &Device::Cpu).unwrap();
        tensors.insert("bert.embeddings.position_ids".to_owned(), positions);
    });
    Classifier::load(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap();
}

#[test]
fn a_malformed_bin_is_an_error_of_its_own() {
    let dir = copy(&golden("roberta_cls"));
    fs::remove_file(weights(&dir)).unwrap();
    let good = fs::read(golden("").parent().unwrap().join("fixtures/roberta_cls.bin")).unwrap();
    let bin = dir.path().join("pytorch_model.bin");
    for bytes in [&b""[..], b"\x80\x02}q\x00.", b"PK\x03\x04", &good[..good.len() / 2]] {
        fs::write(&bin, bytes).unwrap();
        let error = Classifier::load(&resolver(), &spec(dir.path()), &LoadOptions::default());
        let text = error.expect_err("loading must fail").to_string();
        assert!(text.contains("pytorch_model.bin: is not a PyTorch checkpoint"), "{text}");
    }
}

#[test]
fn an_unknown_model_type_lists_the_known_ones() {
    let dir = copy(&golden("llada"));
    edit_json(&dir.path().join("config.json"), |config| config["model_type"] = "t5".into());
    let error = load(dir.path()).unwrap_err();
    assert!(error.to_string().contains("expected mdlm, llada, Dream, gpt2"), "{error}");
    assert!(error.to_string().contains("got t5"), "{error}");
    assert!(error.hint().unwrap().contains("ask for that architecture"));
    assert!(matches!(error, Error::Unsupported(_)));
    edit_json(&dir.path().join("config.json"), |config| {
        config.as_object_mut().unwrap().remove("model_type");
    });
    assert!(message(&dir).contains("has no model_type"));
}

#[test]
fn a_denoiser_without_a_mask_token_says_how_to_pass_one() {
    for family in ["bert_mlm", "modernbert_mlm", "diffugpt"] {
        let error = load(&golden(family)).unwrap_err();
        assert!(error.to_string().contains("no mask token"), "{error}");
        assert!(error.hint().unwrap().contains("name the mask id"), "{error}");
        assert!(matches!(error, Error::Invalid(_)));
    }
    let options = LoadOptions { mask_id: Some(999), ..LoadOptions::default() };
    let error = MaskedLm::load(&resolver(), &spec(&golden("bert_mlm")), &options).unwrap_err();
    assert_eq!(error.to_string(), "mask id: expected below 109, got 999");
}

#[test]
fn absurd_config_sizes_are_refused() {
    let huge = 1u64 << 60;
    for (key, value) in [
        ("d_model", json!(huge)),
        ("vocab_size", json!(huge)),
        ("n_layers", json!(5_000_000)),
        ("n_layers", json!(0)),
        ("n_heads", json!(-4)),
        ("n_heads", json!(5)),
        ("mlp_hidden_size", json!("many")),
        ("rms_norm_eps", json!(-1.0)),
        ("rope_theta", json!(0)),
        ("d_model", json!(16_777_216)),
    ] {
        let dir = copy(&golden("llada"));
        edit_json(&dir.path().join("config.json"), |config| config[key] = value.clone());
        let text = message(&dir);
        assert!(
            text.contains("config.json") || text.contains("do not fit"),
            "{key} {value}: {text}"
        );
    }
    for text in ["", "{", "[1]", "null", &"[".repeat(100_000)] {
        assert!(Config::parse(text, "config.json").is_err(), "{text:.20}");
    }
}

#[test]
fn options_of_a_network_that_is_not_implemented_are_not_ignored() {
    for (family, key, value) in [
        ("llada", "block_type", json!("sequential")),
        ("llada", "alibi", json!(true)),
        ("bert_mlm", "position_embedding_type", json!("relative_key")),
        ("bert_mlm", "hidden_act", json!("mish")),
    ] {
        let dir = copy(&golden(family));
        edit_json(&dir.path().join("config.json"), |config| config[key] = value.clone());
        let text = message(&dir);
        assert!(text.contains(key), "{text}");
    }
    let dir = copy(&golden("llama"));
    edit_json(&dir.path().join("config.json"), |config| {
        config["rope_scaling"] = json!({"rope_type": "yarn", "factor": 2.0});
    });
    let error = Scorer::load(&resolver(), &spec(dir.path()), &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("default, linear or llama3, got yarn"), "{error}");
}

#[test]
fn shard_names_must_stay_in_the_directory() {
    for name in ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "c:x"] {
        let dir = copy(&golden("llada_gqa"));
        edit_json(&dir.path().join("model.safetensors.index.json"), |index| {
            index["weight_map"]["model.transformer.wte.weight"] = name.into();
        });
        let text = message(&dir);
        assert!(text.contains("a file name in the same directory"), "{name}: {text}");
    }
}

#[test]
fn an_index_and_its_shards_must_agree() {
    let dir = copy(&golden("llada_gqa"));
    let index = dir.path().join("model.safetensors.index.json");
    edit_json(&index, |index| {
        index["weight_map"]["phantom"] = "model-00001-of-00002.safetensors".into();
    });
    assert!(message(&dir).contains("no shard holds: phantom"));
    fs::remove_file(dir.path().join("model-00002-of-00002.safetensors")).unwrap();
    assert!(message(&dir).contains("has no model-00002-of-00002.safetensors"));
    for text in ["", "{}", "[]", r#"{"weight_map": {}}"#, r#"{"weight_map": {"a": 1}}"#] {
        fs::write(&index, text).unwrap();
        assert!(message(&dir).contains("index"), "{text}");
    }
}

#[test]
fn a_tied_head_that_is_stored_and_differs_is_an_error() {
    let dir = copy(&golden("diffugpt"));
    let options = options("diffugpt");
    let embedding = "embed_tokens.weight";
    edit_tensors(dir.path(), |tensors| {
        tensors.insert("lm_head.weight".to_owned(), tensors[embedding].clone());
    });
    MaskedLm::load(&resolver(), &spec(dir.path()), &options).expect("equal is fine");
    edit_tensors(dir.path(), |tensors| {
        let other = (&tensors[embedding] * 2.0).unwrap();
        tensors.insert("lm_head.weight".to_owned(), other);
    });
    let error = MaskedLm::load(&resolver(), &spec(dir.path()), &options).unwrap_err();
    assert!(error.to_string().contains("they differ in row 0"), "{error}");
}

#[test]
fn a_place_without_a_model_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(message(&dir).contains("has no config.json"));
    let text = load(Path::new("/no/such/place")).unwrap_err().to_string();
    assert_eq!(text, "/no/such/place: no such file or directory");
    let file = golden("llada").join("config.json");
    assert!(load(&file).unwrap_err().to_string().contains("a directory or a .gguf file"));
}

#[test]
fn an_error_says_whose_fault_it_is() {
    let missing = load(Path::new("/no/such/place")).unwrap_err();
    assert!(matches!(missing, Error::Missing(_)), "{missing:?}");
    let dir = copy(&golden("llada"));
    let bytes = fs::read(weights(&dir)).unwrap();
    fs::write(weights(&dir), &bytes[..100]).unwrap();
    let damaged = load(dir.path()).unwrap_err();
    assert!(matches!(damaged, Error::Damaged(_)), "{damaged:?}");
    fs::write(weights(&dir), &bytes).unwrap();
    edit_json(&dir.path().join("config.json"), |config| config["alibi"] = true.into());
    let unsupported = load(dir.path()).unwrap_err();
    assert!(matches!(unsupported, Error::Unsupported(_)), "{unsupported:?}");
    edit_json(&dir.path().join("config.json"), |config| config["alibi"] = "perhaps".into());
    let unsupported = load(dir.path()).unwrap_err();
    assert!(matches!(unsupported, Error::Unsupported(_)), "{unsupported:?}");
    edit_json(&dir.path().join("config.json"), |config| {
        config["alibi"] = false.into();
        config["n_heads"] = 0.into();
    });
    let damaged = load(dir.path()).unwrap_err();
    assert!(matches!(damaged, Error::Damaged(_)), "{damaged:?}");
    let invalid = "float7".parse::<treasure_models::Dtype>().unwrap_err();
    assert!(matches!(invalid, Error::Invalid(_)), "{invalid:?}");
}
