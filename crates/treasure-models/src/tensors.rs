//! What an architecture asks of a checkpoint, asked twice: once to check every name and shape, once to load.
//!
//! Guarantee: all missing, misshapen and unexpected tensors are reported in one error, before any
//! weight is read. Matrices are never read here: they know where their rows lie, and whoever packs them reads
//! them. Vectors are read at once; in the checking round they are empty.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    Error, Result,
    stack::{Dense, Matrix, Norm, NormKind, RowSource},
    weights::Weights,
};

#[derive(Clone, Copy, PartialEq)]
enum Round {
    Check,
    Load,
}

/// A checkpoint seen by an architecture.
pub(crate) struct Tensors {
    weights: Arc<Weights>,
    round: Round,
    asked: BTreeSet<String>,
    missing: BTreeSet<String>,
    misshapen: Vec<String>,
    parameters: u64,
}

impl Tensors {
    /// Runs `build` in the checking round, reports everything that does not fit, then runs it for real.
    /// `ignored` says which other tensors a file may hold. Without `load` the result is an outline: all its
    /// vectors are empty. Also returns the number of parameters.
    pub(crate) fn build<T>(
        weights: &Arc<Weights>,
        place: &str,
        load: bool,
        ignored: impl Fn(&str) -> bool,
        mut build: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<(T, u64)> {
        let mut this = Self {
            weights: Arc::clone(weights),
            round: Round::Check,
            asked: BTreeSet::new(),
            missing: BTreeSet::new(),
            misshapen: Vec::new(),
            parameters: 0,
        };
        let outline = build(&mut this)?;
        this.report(place, ignored)?;
        if !load {
            return Ok((outline, this.parameters));
        }
        drop(outline);
        this.round = Round::Load;
        let built = build(&mut this)?;
        Ok((built, this.parameters))
    }

    fn report(&self, place: &str, ignored: impl Fn(&str) -> bool) -> Result<()> {
        let extra: Vec<&str> = self
            .weights
            .tensors()
            .keys()
            .map(String::as_str)
            .filter(|name| !self.asked.contains(*name) && !ignored(name))
            .collect();
        if self.missing.is_empty() && self.misshapen.is_empty() && extra.is_empty() {
            return Ok(());
        }
        let missing: Vec<&str> = self.missing.iter().map(String::as_str).collect();
        let mut parts = Vec::new();
        for (count, what, names) in [
            (missing.len(), "missing", missing.join(", ")),
            (self.misshapen.len(), "misshapen", self.misshapen.join(", ")),
            (extra.len(), "unexpected", extra.join(", ")),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what} ({names})"));
            }
        }
        Err(Error::new(format!("{place}: tensors do not fit the config: {}", parts.join("; ")))
            .with_hint(
                "config.json and the weights must belong together, and to the architecture asked for",
            ))
    }

    /// Whether the file has a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.weights.tensors().contains_key(name)
    }

    /// The shape of a tensor, if the file has it.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.weights.tensors().get(name).map(|info| &info.shape[..])
    }

    /// Whether this round only checks, so that values are empty.
    pub(crate) fn checking(&self) -> bool {
        self.round == Round::Check
    }

    /// Notes the request; whether the tensor is to be read now.
    fn ask(&mut self, name: &str, shape: &[usize]) -> bool {
        if self.round == Round::Load {
            return true;
        }
        let info = self.weights.tensors().get(name);
        if self.asked.insert(name.to_owned()) {
            self.parameters += shape.iter().map(|&dim| dim as u64).product::<u64>();
        }
        match info {
            None => drop(self.missing.insert(name.to_owned())),
            Some(info) if info.shape != shape => {
                let note = format!("{name}: expected {shape:?}, got {:?}", info.shape);
                if !self.misshapen.contains(&note) {
                    self.misshapen.push(note);
                }
            }
            Some(info) if matches!(info.stored, crate::weights::Stored::Other(_)) => {
                let note = format!("{name}: expected floating-point numbers, got {}", info.stored);
                if !self.misshapen.contains(&note) {
                    self.misshapen.push(note);
                }
            }
            Some(_) => {}
        }
        false
    }

    /// A whole tensor as f32; empty while checking.
    pub(crate) fn values(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        if !self.ask(name, shape) {
            return Ok(Vec::new());
        }
        let mut values = vec![0.0; shape.iter().product()];
        self.weights.read_rows(name, 0..shape.first().copied().unwrap_or(1), &mut values)?;
        Ok(values)
    }

    /// A matrix `[outputs, inputs]` without bias.
    pub(crate) fn matrix(&mut self, name: &str, outputs: usize, inputs: usize) -> Matrix {
        self.rows_of(name, [outputs, inputs], 0, outputs)
    }

    /// Rows `first..first + outputs` of a taller matrix, for projections stored together.
    pub(crate) fn rows_of(
        &mut self,
        name: &str,
        [rows, inputs]: [usize; 2],
        first: usize,
        outputs: usize,
    ) -> Matrix {
        self.ask(name, &[rows, inputs]);
        let (weights, tensor) = (Arc::clone(&self.weights), name.to_owned());
        let mapped = match self.round == Round::Load {
            true => weights.mapped(name).and_then(|rows| rows.part(first, outputs)),
            false => None,
        };
        Matrix::new(name, outputs, inputs, move |start: usize, to: &mut [f32]| {
            let start = first + start;
            weights.read_rows(&tensor, start..start + to.len() / inputs.max(1), to)
        })
        .with_mapped(mapped)
    }

    /// A matrix whose row `r` lies at row `place(r)` of the file.
    pub(crate) fn matrix_rows(
        &mut self,
        name: &str,
        outputs: usize,
        inputs: usize,
        place: impl Fn(usize) -> usize + Send + 'static,
    ) -> Matrix {
        let mut stored = self.matrix(name, outputs, inputs);
        let mapped = stored.mapped().cloned().and_then(|rows| rows.reordered(&place));
        Matrix::new(name, outputs, inputs, move |start: usize, to: &mut [f32]| {
            let mut rows = to.chunks_exact_mut(inputs.max(1)).enumerate();
            rows.try_for_each(|(r, row)| stored.read(place(start + r), row))
        })
        .with_mapped(mapped)
    }

    /// A matrix whose row `r` is multiplied by `scale[r]`.
    pub(crate) fn scaled(
        &mut self,
        name: &str,
        outputs: usize,
        inputs: usize,
        scale: Vec<f32>,
    ) -> Matrix {
        let mut stored = self.matrix(name, outputs, inputs);
        Matrix::new(name, outputs, inputs, move |start: usize, to: &mut [f32]| {
            stored.read(start, to)?;
            for (row, scale) in to.chunks_exact_mut(inputs.max(1)).zip(&scale[start..]) {
                row.iter_mut().for_each(|x| *x *= scale);
            }
            Ok(())
        })
    }

    /// `name.weight` `[outputs, inputs]` and, if `bias`, `name.bias`.
    pub(crate) fn linear(
        &mut self,
        name: &str,
        outputs: usize,
        inputs: usize,
        bias: bool,
    ) -> Result<Matrix> {
        let matrix = self.matrix(&format!("{name}.weight"), outputs, inputs);
        if !bias {
            return Ok(matrix);
        }
        Ok(matrix.with_bias(self.values(&format!("{name}.bias"), &[outputs])?))
    }

    /// `name.weight` and `name.bias` of a small layer that is computed once, in memory.
    pub(crate) fn dense(&mut self, name: &str, outputs: usize, inputs: usize) -> Result<Dense> {
        Ok(Dense {
            weights: self.values(&format!("{name}.weight"), &[outputs, inputs])?,
            bias: self.values(&format!("{name}.bias"), &[outputs])?,
        })
    }

    /// GPT-2's `Conv1D`: `name.weight` `[inputs, outputs]` and `name.bias`, split into parts of
    /// `outputs / PARTS` each.
    pub(crate) fn conv1d<const PARTS: usize>(
        &mut self,
        name: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<[Matrix; PARTS]> {
        let weight = format!("{name}.weight");
        self.ask(&weight, &[inputs, outputs]);
        let bias = self.values(&format!("{name}.bias"), &[outputs])?;
        let width = outputs / PARTS;
        Ok(std::array::from_fn(|part| {
            let columns = Columns {
                weights: Arc::clone(&self.weights),
                tensor: weight.clone(),
                shape: [inputs, outputs],
                first: part * width,
                count: width,
                held: None,
            };
            let bias = bias.get(part * width..(part + 1) * width).unwrap_or_default();
            Matrix::new(&weight, width, inputs, columns).with_bias(bias.to_vec())
        }))
    }

    /// A norm with a weight and, if `bias`, a bias.
    pub(crate) fn norm(
        &mut self,
        kind: NormKind,
        name: &str,
        width: usize,
        bias: bool,
        eps: f32,
    ) -> Result<Norm> {
        let weight = self.values(&format!("{name}.weight"), &[width])?;
        let bias = bias.then(|| self.values(&format!("{name}.bias"), &[width])).transpose()?;
        Ok(Norm { kind, weight, bias, eps })
    }

    /// The matrix of a token table that is also the decoder. If the file stores `decoder` as well, the
    /// two must be equal.
    pub(crate) fn tied(
        &mut self,
        table: &str,
        decoder: &str,
        rows: usize,
        width: usize,
    ) -> Result<Matrix> {
        let matrix = self.matrix(table, rows, width);
        if self.has(decoder) {
            self.ask(decoder, &[rows, width]);
            if !self.checking() {
                self.equal(table, decoder, rows, width)?;
            }
        }
        Ok(matrix)
    }

    fn equal(&self, a: &str, b: &str, rows: usize, width: usize) -> Result<()> {
        let (mut left, mut right) = (vec![0.0; width], vec![0.0; width]);
        for row in 0..rows {
            self.weights.read_rows(a, row..row + 1, &mut left)?;
            self.weights.read_rows(b, row..row + 1, &mut right)?;
            if left != right {
                return Err(Error::new(format!(
                    "{b}: the config ties it to {a}, but they differ in row {row}"
                )));
            }
        }
        Ok(())
    }
}

/// Columns of a stored matrix as the rows of another. Turned around at the first read and let go of after the
/// last row, so that one matrix at a time is held.
struct Columns {
    weights: Arc<Weights>,
    tensor: String,
    /// Rows and columns as stored.
    shape: [usize; 2],
    first: usize,
    count: usize,
    held: Option<Vec<f32>>,
}

impl Columns {
    fn turned(&self) -> Result<Vec<f32>> {
        let [rows, columns] = self.shape;
        let mut row = vec![0.0; columns];
        let mut turned = vec![0.0; self.count * rows];
        for r in 0..rows {
            self.weights.read_rows(&self.tensor, r..r + 1, &mut row)?;
            let wanted = &row[self.first..][..self.count];
            turned[r..].iter_mut().step_by(rows).zip(wanted).for_each(|(to, x)| *to = *x);
        }
        Ok(turned)
    }
}

impl RowSource for Columns {
    fn read(&mut self, first: usize, to: &mut [f32]) -> Result<()> {
        let held = match self.held.take() {
            Some(held) => held,
            None => self.turned()?,
        };
        let start = first * self.shape[0];
        to.copy_from_slice(&held[start..start + to.len()]);
        if start + to.len() < held.len() {
            self.held = Some(held);
        }
        Ok(())
    }
}
