//! What the library promises to every door.

mod plans;
mod rooms;
mod sessions;
