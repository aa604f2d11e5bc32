//! The whole binary, as a user meets it: one test program, so that it is linked once.

mod errors;
mod eval;
mod faults;
mod generate;
mod golden;
mod interrupt;
mod pocket;
mod refine;
mod serve;
mod support;
mod view;
mod words;
