//! Checkpoints: loaders, tokenizers and exact, fast CPU forward passes.
//!
//! [`MaskedLm`] (denoisers), [`Scorer`] (autoregressive likelihoods) and [`Classifier`] (label
//! probabilities) load by name through a [`Resolver`]. Each architecture fills a [`stack::Stack`]; an executor
//! of [`exec`], by default the CPU, takes its weights over and runs it.
//!
//! This crate, `treasure-core` and `treasure-text` turn a prompt into a text by themselves; without the feature
//! `hub` nothing below them speaks HTTP:
//!
//! ```
//! use treasure_core::{Key, Limits, NoiseSchedule, Problem, Reward, Search, Silent, View, methods::Treasure};
//! use treasure_models::{LoadOptions, MaskedLm, Resolver};
//! use treasure_text::Start;
//!
//! struct Varied;
//! impl Reward for Varied {
//!     fn name(&self) -> &str {
//!         "varied"
//!     }
//!     fn score(&self, batch: &[&View]) -> treasure_core::Result<Vec<f64>> {
//!         Ok(batch.iter().map(|view| view.variety()).collect())
//!     }
//! }
//!
//! let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/mdlm");
//! let model = MaskedLm::load(&Resolver::new(), folder, &LoadOptions::default())?;
//! let start = Start::prompt(&model, "The lake", 12, 0)?;
//! let schedule = NoiseSchedule::default();
//! let (state, bans) = (start.state.clone(), start.bans.clone());
//! let problem = Problem::new(state, &schedule, &model, &Varied, bans, Limits::default())?;
//! let found = Treasure::new(3, 2).run(&problem, Key::new(0), &mut Silent)?;
//! let text = start.layout.render(&model, &found.tokens, &start.ends, None)?.text;
//! assert!(text.len() > "The lake".len() && text.starts_with("The lake"), "{text}");
//! assert!(found.reward.is_some_and(|reward| reward > 0.5) && found.cost.nfe > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
