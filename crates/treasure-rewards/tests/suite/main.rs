//! The tests of the crate, one program: each module is a subject.

mod compose;
mod exec;
mod grammar;
mod neural;
mod pipeline;
mod remote;
mod savings;
mod support;
