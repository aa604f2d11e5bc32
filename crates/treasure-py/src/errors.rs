//! Errors as Python sees them: `treasure.Error` and its kinds, each with `hint` and `because`.

use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyModule};
use treasure::Hint as _;

/// The Python exception for an error.
pub(crate) fn raise(py: Python<'_>, error: &treasure::Error) -> PyErr {
    let hint = error.hint();
    make(py, error.kind().name(), error.chain(), hint.as_deref()).unwrap_or_else(|failed| failed)
}

/// An error of the caller's request.
pub(crate) fn request(py: Python<'_>, message: impl std::fmt::Display) -> PyErr {
    raise(py, &treasure::Error::request(message))
}

fn make(py: Python<'_>, kind: &str, chain: Vec<String>, hint: Option<&str>) -> PyResult<PyErr> {
    let module = PyModule::import(py, "treasure._errors")?;
    let error = module.getattr("make")?.call1((kind, chain, hint))?;
    if !error.is_instance_of::<pyo3::exceptions::PyException>() {
        return Err(PyRuntimeError::new_err("treasure._errors.make: expected an exception"));
    }
    Ok(PyErr::from_value(error))
}
