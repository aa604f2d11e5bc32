//! A GGUF file: header, weights and the tokenizer inside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treasure_models::{LoadOptions, Resolver, Scorer, Source, Tokenizer};

fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, data).expect("a file");
    let spec = path.display().to_string();
    let _ = Scorer::load(&Resolver::new().offline(), &spec, &LoadOptions::default());
    let _ = Source::File(path).tokenizer();
});
