//! Executors: what runs a [`crate::stack::Network`] on batches of sequences.
//!
//! An [`Executor`] takes the weights of a network over and gives a [`Forward`], which a [`Runner`] stands in front
//! of: it refuses batches a network cannot run and results that are no numbers, whoever computes. [`Cpu`] is
//! the executor of the product; `docs/executors.md` says what another one has to provide.

mod cpu;
mod executor;
mod past;
mod question;
mod runner;
mod sequence;

pub use cpu::Cpu;
pub use executor::{Executor, Facts, Forward, Precision, Storage};
pub use past::Past;
pub use question::{RowAnswer, RowQuestion};
pub use runner::{Hidden, Runner};
pub use sequence::{Keep, Sequence};

use crate::Error;
pub use crate::kernels::{Isa, on_a_worker};
#[cfg(feature = "bench")]
pub use crate::kernels::{operations, register_flops};

fn no_token(token: u32, vocabulary: usize) -> Error {
    Error::new(format!("token {token}: expected an id below {vocabulary}"))
}

fn no_position(position: usize, len: usize) -> Error {
    Error::new(format!("position {position}: expected one below {len}"))
}
