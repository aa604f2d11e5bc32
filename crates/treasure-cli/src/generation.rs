//! From a plan to finished rows.

pub mod follow;
pub mod knobs;
pub mod parts;
pub mod plan;
pub mod row;
pub mod run;
pub mod sample;
