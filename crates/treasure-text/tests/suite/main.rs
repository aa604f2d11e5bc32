//! Constraints against brute force, other implementations, and the documented law of draws.

mod chat;
mod engine;
mod fills;
mod holes;
mod law;
mod left_to_right;
mod oracle;
mod pocket;
mod schemas;
mod sizes;
mod tokenizers;
