//! `model.safetensors.index.json` as the only file of a directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treasure_models::{Source, weights::Weights};

fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("model.safetensors.index.json"), data).expect("a file");
    let _ = Weights::open(&Source::Directory(dir.path().to_owned()));
});
