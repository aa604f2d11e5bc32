//! Plans, statistics and whole experiments on an exact table; one on real checkpoints.

mod bench;
mod common;
mod plans;
mod report;
mod run_store;
mod shards;
mod stats;
