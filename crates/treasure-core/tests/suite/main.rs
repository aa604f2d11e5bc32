//! The search against exact oracles: every test name is a sentence about it.

mod backtracking;
mod bad_input;
mod batcher;
mod budgets;
mod chains;
mod common;
mod constraints;
mod costs;
mod feynman_kac;
mod gibbs;
mod golden;
mod likelihood;
mod observers;
mod options;
mod properties;
mod randomness;
mod readable;
mod refinement;
mod remdm;
mod rollouts;
mod runs;
mod sampling;
mod smc;
mod theorems;
mod times;
mod values;
