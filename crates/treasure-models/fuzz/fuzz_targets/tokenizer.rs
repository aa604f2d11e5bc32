//! `tokenizer.json`, and what it does to a text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treasure_models::Tokenizer;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(tokenizer) = Tokenizer::parse(text, "tokenizer.json") {
        let _ = tokenizer.encode("The lake was quiet, 12 times.", true);
        let _ = tokenizer.encode_fragment(" café");
        let _ = tokenizer.decode(&[0, 1, 2, 1_000_000]);
    }
});
