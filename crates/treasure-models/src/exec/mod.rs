//! Executors: run a [`crate::stack::Stack`] on batches of sequences.
//!
//! [`Runner`] is the fast one: packed weights, plain slices, ragged batches without padding. It promises
//! row invariance: what it says about a sequence is bitwise the same alone, in any batch, at any thread
//! count and after sharing a prefix.

mod forward;
mod ragged;
mod runner;
#[cfg(test)]
mod tests;

pub use ragged::{Keep, Sequence};
pub use runner::{Hidden, Runner};

pub use crate::kernels::{Isa, RowAnswer, RowQuestion, operations, register_flops};
use crate::stack::StackError;

/// A batch that a network cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// Shapes of the network disagree.
    #[error("network: {0}")]
    Stack(#[from] StackError),
    /// An id beyond the embedding.
    #[error("token {token}: expected an id below {vocabulary}")]
    Token {
        /// The id.
        token: u32,
        /// Rows of the embedding.
        vocabulary: usize,
    },
    /// More tokens than learned positions.
    #[error("sequence: expected at most {most} tokens, got {len}")]
    TooLong {
        /// The longest sequence.
        most: usize,
        /// Its length.
        len: usize,
    },
    /// A row that is asked for but does not exist.
    #[error("position {position}: expected one below {len}")]
    Position {
        /// The position.
        position: usize,
        /// The length of its sequence.
        len: usize,
    },
    /// Prefix sharing on a network that looks ahead.
    #[error(
        "network: expected causal attention in every layer to score text, got a layer that looks ahead"
    )]
    NotCausal,
    /// A row that overflowed, or was made of what is no number.
    #[error("{what}: expected finite numbers, got {got}")]
    NotFinite {
        /// Which row.
        what: String,
        /// The first that is none.
        got: String,
    },
    /// Hidden rows and a head of different widths.
    #[error("head: expected {expected} inputs, got rows of {got}")]
    HeadWidth {
        /// Inputs of the head.
        expected: usize,
        /// Width of the rows.
        got: usize,
    },
}
