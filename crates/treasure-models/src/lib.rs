//! Checkpoints: loaders, tokenizers and exact, fast CPU forward passes.
//!
//! [`MaskedLm`] (denoisers), [`Scorer`] (autoregressive likelihoods) and [`Classifier`] (label
//! probabilities) load by name through a [`Resolver`]. Each architecture fills a [`stack::Stack`]; an executor
//! of [`exec`], by default the CPU, takes its weights over and runs it.

mod arch;
mod classifier;
pub mod config;
mod describe;
mod error;
pub mod exec;
mod gate;
pub mod gguf;
mod kernels;
mod load;
mod masked_lm;
mod options;
mod probe;
mod published;
mod scorer;
mod source;
pub mod stack;
mod store;
mod tensors;
mod tokenizer;
pub mod weights;

pub use arch::{Family, Role};
pub use classifier::Classifier;
pub use describe::{Description, inspect};
pub use error::{Error, Result};
pub use masked_lm::MaskedLm;
pub use options::{Dtype, LoadOptions};
pub use probe::operations_per_second;
pub use scorer::{Scorer, mean_nll};
pub use source::{Blob, EmbeddedFiles, HubRepo, Resolver, Source};
pub use store::ModelStore;
pub use treasure_text::{Specials, Tokenizer};
