//! What commands write: rows, tables, numbers, files and the screen.

pub mod number;
pub mod print;
pub mod progress;
pub mod row;
pub mod screen;
pub mod trace;
pub mod watch;
