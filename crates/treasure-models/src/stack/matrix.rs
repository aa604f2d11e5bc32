//! A matrix as data: its shape, its bias, and where its rows can be read.
//!
//! Rows come in f32, a few at a time, so that whoever packs them never needs a second copy of the matrix.

use std::fmt;

use crate::{Result, weights::MappedRows};

/// Where the rows of a matrix come from.
pub trait RowSource: Send {
    /// Writes rows `first..` to `to`, as many as fit; `to` holds whole rows.
    fn read(&mut self, first: usize, to: &mut [f32]) -> Result<()>;
}

impl<F: FnMut(usize, &mut [f32]) -> Result<()> + Send> RowSource for F {
    fn read(&mut self, first: usize, to: &mut [f32]) -> Result<()> {
        self(first, to)
    }
}

/// Weights `[outputs, inputs]` and an optional bias `[outputs]`: `y = W x + b`. As a lookup table its rows are
/// what is looked up.
pub struct Matrix {
    name: String,
    outputs: usize,
    inputs: usize,
    rows: Box<dyn RowSource>,
    bias: Option<Vec<f32>>,
    mapped: Option<MappedRows>,
}

impl Matrix {
    /// A matrix whose rows are read from a source; `name` is for messages.
    pub fn new(
        name: impl Into<String>,
        outputs: usize,
        inputs: usize,
        rows: impl RowSource + 'static,
    ) -> Self {
        Self { name: name.into(), outputs, inputs, rows: Box::new(rows), bias: None, mapped: None }
    }

    /// A matrix in memory, row by row.
    ///
    /// # Panics
    /// If `values` does not hold `outputs × inputs` numbers.
    pub fn from_values(outputs: usize, inputs: usize, values: Vec<f32>) -> Self {
        assert_eq!(values.len(), outputs * inputs, "a matrix of {outputs} × {inputs} weights");
        let read = move |first: usize, to: &mut [f32]| {
            to.copy_from_slice(&values[first * inputs..][..to.len()]);
            Ok(())
        };
        Self::new("matrix in memory", outputs, inputs, read)
    }

    /// Adds a bias.
    pub fn with_bias(mut self, bias: Vec<f32>) -> Self {
        self.bias = Some(bias);
        self
    }

    /// Says where the same rows lie in a mapped file.
    pub(crate) fn with_mapped(mut self, mapped: Option<MappedRows>) -> Self {
        self.mapped = mapped;
        self
    }

    /// Where the rows lie in a mapped file, if they do.
    pub(crate) fn mapped(&self) -> Option<&MappedRows> {
        self.mapped.as_ref()
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of outputs, or of rows of a table.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The number of inputs, or the width of a table.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The bias, if any.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// The bias, taken out.
    pub fn take_bias(&mut self) -> Option<Vec<f32>> {
        self.bias.take()
    }

    /// Reads rows `first..` into `to`, as many as fit.
    pub fn read(&mut self, first: usize, to: &mut [f32]) -> Result<()> {
        self.rows.read(first, to)
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matrix({}, {} × {})", self.name, self.outputs, self.inputs)
    }
}
