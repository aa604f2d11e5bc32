//! What the library promises to every door.

mod chat;
mod durability;
mod fuzz;
mod plans;
mod rooms;
mod sessions;
