//! The arithmetic: one matrix product on packed weights, attention, norms and activations on plain slices.
//!
//! Every result is summed in one fixed order, so a row comes out bitwise the same alone, in any batch and
//! at any thread count. All `unsafe` code of the crate lives here.

mod attention;
mod buffer;
mod count;
mod isa;
mod math;
mod norm;
mod parallel;
mod peak;
mod product;
mod rows;
#[cfg(test)]
mod tests;
mod tile;
mod vocabulary;
mod widen;

pub(crate) use attention::MAX_HEAD_DIM;
pub use attention::{Inputs, Segment, attend};
pub use buffer::Aligned;
pub use count::operations;
pub use isa::Isa;
pub use math::{activate, exponentials};
pub use norm::{Shift, normalise};
pub use peak::register_flops;
pub use product::{project, project_activated, project_added};
pub use rows::{Lie, Packed, Plain, Rows};
pub use vocabulary::{Answer, Question, answer};
