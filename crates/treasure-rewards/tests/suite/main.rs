//! The tests of the crate, one program: each module is a subject.

mod compose;
#[cfg(feature = "exec")]
mod exec;
mod fuzz;
mod grammar;
mod neural;
mod pipeline;
#[cfg(feature = "remote")]
mod remote;
mod savings;
#[cfg(feature = "schema")]
mod schema;
#[cfg(feature = "remote")]
mod server;
mod support;
