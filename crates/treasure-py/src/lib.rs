//! The extension module behind the Python package `treasure`.
//!
//! It is a door like the command line: requests in, rows out, as JSON. A search runs on threads of its own
//! and never holds the interpreter's lock; what it needs of Python (a reward, a model) it asks of the thread
//! that started it, by messages. So callables run where their author expects them to.

mod bridge;
mod engine;
mod errors;
mod model;
mod run;
mod work;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _treasure {
    #[pymodule_export]
    use super::engine::{Engine, facts, set_threads};
    #[pymodule_export]
    use super::run::Run;
}
