//! The commands: arguments → request → print.

#[cfg(feature = "eval")]
pub mod bench;
pub mod compare;
#[cfg(feature = "eval")]
pub mod eval;
pub mod generate;
pub mod models;
pub mod predict;
pub mod refine;
pub mod score;
#[cfg(feature = "server")]
pub mod serve;
pub mod shell;
#[cfg(feature = "eval")]
pub mod trace;
