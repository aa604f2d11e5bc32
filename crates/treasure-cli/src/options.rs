//! Option groups that several commands share, named as in the command-line contract.

pub mod common;
pub mod model;
pub mod search;
