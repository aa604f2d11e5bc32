//! What commands write: lines, tables, rows, files and the screen.

pub mod print;
pub mod screen;
pub mod sinks;
mod view;
