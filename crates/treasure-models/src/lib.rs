//! Checkpoints: loaders, tokenizers and exact, fast CPU forward passes.
