//! Experiments: presets, run store, metrics, statistics, tables, plots and the report.
//!
//! A [`config::Config`] becomes a [`plan::Plan`]; a plan has cells; each finished cell is a
//! [`row::Row`] in a run store; rows become tables, figures and one self-contained HTML file.

pub mod commands;
pub mod config;
mod error;
pub mod findings;
pub mod metrics;
pub mod plan;
pub mod plots;
pub mod presets;
pub mod report;
pub mod row;
pub mod run;
pub mod shard;
pub mod stats;
pub mod store;
pub mod tables;
pub mod throughput;

pub use error::{Error, Result};
