//! One file per command: its arguments and what it does with them.

pub mod bench;
pub mod compare;
pub mod eval;
pub mod generate;
pub mod models;
pub mod predict;
pub mod score;
mod searches;
