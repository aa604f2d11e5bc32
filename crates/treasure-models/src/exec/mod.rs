//! Executors: run a [`crate::stack::Stack`] on batches of sequences.
