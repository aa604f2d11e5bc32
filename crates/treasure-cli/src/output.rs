//! What the user gets: rows for people and for programs, files, progress.

pub mod number;
pub mod print;
pub mod progress;
pub mod store;
pub mod trace;
pub mod watch;
