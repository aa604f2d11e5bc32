//! The arithmetic: one matrix product on packed weights, attention, norms and activations on plain slices.
//!
//! Every result is summed in one fixed order, so a row comes out bitwise the same alone, in any batch and
//! at any thread count. But for the mapping of files (`source/mapping.rs`) all `unsafe` code of the crate is
//! here, and nothing outside the crate can call it but, with the feature `bench`, `register_flops`:
//! what a kernel takes for granted is promised by types that only this crate makes ([`Isa`], [`Segments`]).

mod amx;
mod attention;
mod buffer;
mod columns;
mod count;
mod isa;
mod linear;
mod math;
mod norm;
mod parallel;
#[cfg(feature = "bench")]
mod peak;
mod product;
mod rows;
mod table;
#[cfg(test)]
mod tests;
mod tile;
mod vocabulary;
mod widen;
mod words;

pub(crate) use attention::{Inputs, MAX_HEAD_DIM, Segments, attend};
pub(crate) use buffer::Aligned;
#[cfg(feature = "bench")]
pub use count::operations;
pub use isa::Isa;
pub(crate) use linear::Linear;
pub(crate) use math::activate;
pub(crate) use norm::{Shift, normalise};
pub use parallel::on_a_worker;
#[cfg(feature = "bench")]
pub use peak::register_flops;
pub(crate) use product::{ROWS_OF_TILES, project, project_activated, project_added};
pub(crate) use rows::{Lie, Packed, Plain};
pub(crate) use table::Table;
pub(crate) use vocabulary::answer;
pub(crate) use words::MAX_INT8_INPUTS;
