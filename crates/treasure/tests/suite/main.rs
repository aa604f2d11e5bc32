//! What the library promises to every door.

mod plans;
mod sessions;
