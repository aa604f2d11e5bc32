//! Text and tokens: hard constraints on any-order generation.

pub mod automata;
