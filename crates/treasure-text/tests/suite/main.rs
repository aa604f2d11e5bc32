//! Constraints against brute force, other implementations, and the documented law of draws.

mod engine;
mod fills;
mod oracle;
mod pocket;
mod schemas;
