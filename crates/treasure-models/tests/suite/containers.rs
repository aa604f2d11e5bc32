//! The same weights in other containers and types give the same numbers.

use std::{collections::BTreeMap, fs};

use candle_core::{DType, Device};
use treasure_models::{Classifier, Dtype, LoadOptions, MaskedLm, Source, weights::Weights};

use crate::support::*;

fn fixture(name: &str) -> std::path::PathBuf {
    golden("").parent().unwrap().join("fixtures").join(name)
}

#[test]
fn a_pytorch_bin_gives_the_numbers_of_safetensors() {
    let dir = copy(&golden("roberta_cls"));
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    fs::copy(fixture("roberta_cls.bin"), dir.path().join("pytorch_model.bin")).unwrap();
    let options = LoadOptions::default();
    let bin = Classifier::load(&resolver(), &spec(dir.path()), &options).unwrap();
    let safe = Classifier::load(&resolver(), &spec(&golden("roberta_cls")), &options).unwrap();
    let rows = Io::read("roberta_cls").ids("row0_input_ids");
    assert_eq!(bin.logits_ids(&[&rows[0]]).unwrap(), safe.logits_ids(&[&rows[0]]).unwrap());
}

#[test]
fn a_pytorch_bin_is_listed_as_candle_lists_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pytorch_model.bin");
    fs::copy(fixture("roberta_cls.bin"), &path).unwrap();
    let ours = Weights::open(&Source::Directory(dir.path().to_owned())).unwrap();
    let theirs = candle_core::pickle::read_pth_tensor_info(&path, false, None).unwrap();
    assert_eq!(ours.tensors().len(), theirs.len());
    for info in theirs {
        let own = &ours.tensors()[&info.name];
        assert_eq!(own.shape, info.layout.dims(), "{}", info.name);
        assert_eq!(own.stored.to_string().to_lowercase(), info.dtype.as_str(), "{}", info.name);
    }
}

#[test]
fn an_embedded_bin_is_read_like_a_file() {
    let bytes: &'static [u8] = fs::read(fixture("roberta_cls.bin")).unwrap().leak();
    let files: &'static [(&'static str, &'static [u8])] = vec![("pytorch_model.bin", bytes)].leak();
    let source = Source::Embedded { name: "inside".to_owned(), files };
    let weights = Weights::open(&source).unwrap();
    assert!(weights.tensors().contains_key("classifier.out_proj.weight"));
}

/// Joins the shards of a folder into one file.
fn join_shards(dir: &std::path::Path) {
    let mut all = std::collections::HashMap::new();
    for shard in ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] {
        all.extend(candle_core::safetensors::load(dir.join(shard), &Device::Cpu).unwrap());
        fs::remove_file(dir.join(shard)).unwrap();
    }
    fs::remove_file(dir.join("model.safetensors.index.json")).unwrap();
    candle_core::safetensors::save(&all, dir.join("model.safetensors")).unwrap();
}

#[test]
fn shards_give_the_numbers_of_one_file() {
    let dir = copy(&golden("llada_gqa"));
    join_shards(dir.path());
    let options = LoadOptions::default();
    let one = MaskedLm::load(&resolver(), &spec(dir.path()), &options).unwrap();
    let two = MaskedLm::load(&resolver(), &spec(&golden("llada_gqa")), &options).unwrap();
    let ids = &Io::read("llada_gqa").ids("input_ids")[0];
    let rows: Vec<usize> = (0..ids.len()).collect();
    assert_eq!(one.raw_logits(ids, &rows, 0.0).unwrap(), two.raw_logits(ids, &rows, 0.0).unwrap());
}

/// A copy of a golden folder with all weights in another type.
fn stored_as(family: &str, dtype: DType) -> tempfile::TempDir {
    let dir = copy(&golden(family));
    edit_tensors(dir.path(), |tensors| {
        for tensor in tensors.values_mut() {
            *tensor = tensor.to_dtype(dtype).unwrap();
        }
    });
    dir
}

#[test]
fn half_precision_files_kept_or_widened_give_the_same_numbers() {
    let halves = [(DType::F16, Dtype::F16, "f16", 2), (DType::BF16, Dtype::Bf16, "bf16", 2)];
    for (dtype, half, name, bytes) in halves {
        let dir = stored_as("llada", dtype);
        let load = |dtype| {
            let options = LoadOptions { dtype, ..LoadOptions::default() };
            MaskedLm::load(&resolver(), &spec(dir.path()), &options).unwrap()
        };
        let (kept, wide, mapped) = (load(half), load(Dtype::Auto), load(Dtype::File));
        assert_eq!(kept.describe().dtype.name(), name);
        assert_eq!(wide.describe().dtype.name(), "f32", "a small file is widened");
        let held =
            kept.describe().memory_bytes as f64 / (kept.describe().parameters * bytes) as f64;
        assert!(
            held < 1.5,
            "{name} holds {held} times the stored bytes (padding of tiny matrices)"
        );
        let ids = &Io::read("llada").ids("input_ids")[0];
        let rows: Vec<usize> = (0..ids.len()).collect();
        // The same numbers are held, so the same numbers come out.
        assert_eq!(
            kept.raw_logits(ids, &rows, 0.0).unwrap(),
            wide.raw_logits(ids, &rows, 0.0).unwrap(),
            "{name}"
        );
        assert_eq!(
            mapped.raw_logits(ids, &rows, 0.0).unwrap(),
            wide.raw_logits(ids, &rows, 0.0).unwrap(),
            "{name} in the mapped file"
        );
    }
}

/// Worst cases seen on logits of about 4: 0.0035 (f16, llada) and 0.027 (bf16, mdlm), in the ratio of their
/// 11 and 8 significant bits. The bounds are three times that.
#[test]
fn half_precision_moves_logits_within_bounds() {
    for (dtype, bound) in [(Dtype::F16, 0.01), (Dtype::Bf16, 0.08)] {
        for family in ["mdlm", "llada", "dream", "diffugpt", "bert_mlm", "modernbert_mlm"] {
            let options = LoadOptions { dtype, ..options(family) };
            let model = MaskedLm::load(&resolver(), &spec(&golden(family)), &options).unwrap();
            let io = Io::read(family);
            let ids = &io.ids("alt_input_ids")[0];
            let rows: Vec<usize> = (0..ids.len()).collect();
            let sigma = if io.has("alt_sigma") { io.numbers("alt_sigma")[0] } else { 0.0 };
            let got = model.raw_logits(ids, &rows, sigma).unwrap();
            let off = distance(&got, &io.numbers("alt_logits"));
            println!("{family} {dtype}: off by {off}");
            assert!(off > 1e-5, "{family} {dtype} must be rounded at all");
            assert!(off <= bound, "{family} {dtype} is off by {off}, allowed are {bound}");
        }
    }
}

#[test]
fn embedded_files_give_the_numbers_of_a_directory() {
    let files: Vec<(&'static str, &'static [u8])> =
        ["config.json", "model.safetensors", "tokenizer.json"]
            .into_iter()
            .map(|name| {
                let bytes = fs::read(golden("mdlm").join(name)).unwrap();
                (name, &*Box::leak(bytes.into_boxed_slice()))
            })
            .collect();
    let resolver = resolver().with_embedded("pocket", Box::leak(files.into_boxed_slice()));
    let options = LoadOptions::default();
    let inside = MaskedLm::load(&resolver, "pocket", &options).unwrap();
    let outside = MaskedLm::load(&resolver, &spec(&golden("mdlm")), &options).unwrap();
    let ids = &Io::read("mdlm").ids("input_ids")[1];
    assert_eq!(
        inside.raw_logits(ids, &[0, 3], 0.0).unwrap(),
        outside.raw_logits(ids, &[0, 3], 0.0).unwrap()
    );
    assert_eq!(inside.describe().name, "pocket");
}

#[test]
fn a_listing_names_every_tensor_with_its_shape() {
    let weights = Weights::open(&Source::Directory(golden("llada_gqa"))).unwrap();
    let shapes: BTreeMap<&str, &[usize]> =
        weights.tensors().iter().map(|(name, info)| (name.as_str(), &info.shape[..])).collect();
    assert_eq!(shapes["model.transformer.wte.weight"], [103, 48]);
    assert_eq!(shapes["model.transformer.blocks.1.k_proj.weight"], [16, 48]);
    assert_eq!(shapes.len(), 3 + 2 * 9);
}
