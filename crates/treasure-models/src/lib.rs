//! Checkpoints: loaders, tokenizers and exact, fast CPU forward passes.

pub mod exec;
pub mod kernels;
pub mod stack;
