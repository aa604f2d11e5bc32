//! Exact denoisers, enumeration oracles and the laws every implementation must pass.
//!
//! A joint table over V^L is a perfect denoiser: every conditional, expectation and optimum can be
//! enumerated, so a search can be compared with the truth instead of with itself.

pub mod exact;
pub mod golden;
pub mod laws;
mod listed;
mod rewards;
mod table;

pub use listed::Listed;
pub use rewards::{FnReward, TableReward};
pub use table::JointTable;
