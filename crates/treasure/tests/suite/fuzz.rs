//! Inputs made by grammar, by the million: an answer or an error that says what is wrong, never a panic,
//! never a broken promise, in bounded time and memory.
//!
//! Every input is a string of bytes that a grammar reads as choices, so that a changed byte is another
//! sensible input and not noise. Inputs that came to an outcome nobody had seen are kept and changed
//! further; the shortest of them are committed (`corpus/`) and come first in every run.
//!
//! `checks/fuzz 480` runs each target for eight minutes; `FUZZ_CORPUS=write` writes the corpus anew.

mod answers;
mod checkpoints;
mod choices;
mod containers;
mod engine;
mod files;
mod requests;
mod searches;
mod specs;
mod templates;
mod toy;

pub use choices::Choices;
pub use engine::{Seen, fuzz};
