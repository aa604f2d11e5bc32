//! `config.json` over the weights of a tiny golden model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treasure_models::{Classifier, LoadOptions, Resolver};

fuzz_target!(|data: &[u8]| {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/bert_cls/model.safetensors");
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::copy(golden, dir.path().join("model.safetensors")).expect("a copy of the weights");
    std::fs::write(dir.path().join("config.json"), data).expect("a config");
    let spec = dir.path().display().to_string();
    let _ = Classifier::load(&Resolver::new().offline(), &spec, &LoadOptions::default());
});
