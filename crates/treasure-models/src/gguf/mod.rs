//! GGUF files: header, metadata and the tokenizer inside.

mod header;
mod tokenizer;

pub use header::{GgufTensor, Header, Value};
pub(crate) use tokenizer::tokenizer;
