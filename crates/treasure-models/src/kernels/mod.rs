//! The arithmetic: one matrix product on packed weights, attention, norms and activations on plain slices.
//!
//! Every result is summed in one fixed order, so a row comes out bitwise the same alone, in any batch and
//! at any thread count. All `unsafe` code of the crate lives here.

mod buffer;

pub use buffer::Aligned;
