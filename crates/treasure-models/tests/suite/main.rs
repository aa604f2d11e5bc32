//! Checkpoints through the public loading path: golden numbers, equal containers, bad input; and executors.

mod bad_input;
mod batches;
mod bits;
mod blocks;
mod classifiers;
mod containers;
mod denoisers;
mod executors;
mod gguf;
mod hub;
#[cfg(target_os = "linux")]
mod memory;
mod mutations;
mod not_finite;
mod precision;
mod reward_models;
mod samplers;
mod scalar;
mod scorers;
mod support;
mod tokenizers;
