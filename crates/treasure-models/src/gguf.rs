//! GGUF files: header, metadata, block types and the tokenizer inside.

mod blocks;
mod header;
mod tokenizer;

pub use blocks::BlockType;
pub(crate) use blocks::half_to_f32;
pub use header::{GgufTensor, Header, Value};
pub(crate) use tokenizer::tokenizer;
