//! The pocket denoiser's tokenizer, as it is shipped.

use std::{path::PathBuf, sync::Arc};

use tokenizers::Tokenizer;
use treasure_text::automata::Vocabulary;

/// A file of the repository.
pub fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

pub fn tokenizer() -> Tokenizer {
    Tokenizer::from_file(file("assets/pocket/denoiser/tokenizer.json")).unwrap()
}

/// Its vocabulary; `</s>` ends a text.
pub fn vocabulary() -> Arc<Vocabulary> {
    let tokenizer = tokenizer();
    let end = tokenizer.token_to_id("</s>").unwrap();
    Arc::new(treasure_text::automata::vocabulary(&tokenizer, &[end]).unwrap())
}
