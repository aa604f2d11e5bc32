//! What commands write: lines, tables, rows, files and the screen.

pub mod print;
mod screen;
mod sinks;
mod view;

pub use screen::Screen;
pub use sinks::Sinks;
