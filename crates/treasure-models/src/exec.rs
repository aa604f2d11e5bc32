//! Executors: what runs a [`crate::stack::Network`] on batches of sequences.
//!
//! An [`Executor`] takes the weights of a network over and gives a [`Forward`], which a [`Runner`] stands in front
//! of: it refuses batches a network cannot run and results that are no numbers, whoever computes. [`Cpu`] is
//! the executor of the product; `docs/executors.md` says what another one has to provide.

mod cpu;
mod executor;
mod question;
mod runner;
mod sequence;

pub use cpu::Cpu;
pub use executor::{Executor, Facts, Forward, Precision, Storage};
pub use question::{RowAnswer, RowQuestion};
pub use runner::{Hidden, Runner};
pub use sequence::{Keep, Sequence};

pub use crate::kernels::{Isa, operations, register_flops};

/// A batch that a network cannot run, or a result that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
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
    /// A question to the other kind of head.
    #[error("network: expected {expected}, got {got}")]
    Reader {
        /// What was asked for.
        expected: &'static str,
        /// What the network has.
        got: &'static str,
    },
    /// Hidden rows of another width.
    #[error("head: expected rows of {expected} numbers, got {got} numbers")]
    HeadWidth {
        /// Numbers in a hidden row.
        expected: usize,
        /// Numbers given.
        got: usize,
    },
    /// A row that overflowed, or was made of what is no number.
    #[error("{what}: expected finite numbers, got {got}")]
    NotFinite {
        /// Which row.
        what: String,
        /// The first that is none.
        got: String,
    },
    /// Nobody waited for the result any more ([`treasure_core::given_up`]).
    #[error("given up")]
    GivenUp,
    /// The executor itself failed.
    #[error("{0}")]
    Failed(String),
}
