//! GGUF files: header, metadata, block types and the tokenizer inside.

mod blocks;
mod header;
mod tokenizer;

pub use blocks::BlockType;
pub use header::{GgufTensor, Header, Value};
pub(crate) use tokenizer::tokenizer;
