//! What an architecture asks of a checkpoint, asked twice: once to check every name and shape, once to load.
//!
//! Guarantee: all missing, misshapen and unexpected tensors are reported in one error, before any
//! weight is read. In the checking round every answer is empty, so it costs nothing.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    Error, Result,
    stack::{Layout, Linear, Norm, NormKind, Storage, Table},
    weights::{TensorInfo, Weights},
};

#[derive(Clone, Copy, PartialEq)]
enum Round {
    Check,
    Load,
}

/// A checkpoint seen by an architecture.
pub(crate) struct Tensors<'a> {
    weights: &'a Weights,
    storage: Storage,
    round: Round,
    asked: BTreeSet<String>,
    missing: BTreeSet<String>,
    misshapen: Vec<String>,
    parameters: u64,
}

impl<'a> Tensors<'a> {
    /// Runs `build` in the checking round, reports everything that does not fit, then runs it for real.
    /// `ignored` says which other tensors a file may hold. Without `load` the result is an outline: all its
    /// matrices are empty. Also returns the number of parameters.
    pub(crate) fn build<T>(
        weights: &'a Weights,
        storage: Storage,
        place: &str,
        load: bool,
        ignored: impl Fn(&str) -> bool,
        mut build: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<(T, u64)> {
        let mut this = Self {
            weights,
            storage,
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
                "config.json and the weights must belong together; --as names another family",
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

    /// Notes the request; the tensor if it is to be read now.
    fn ask(&mut self, name: &str, shape: &[usize]) -> Option<&'a TensorInfo> {
        let info = self.weights.tensors().get(name);
        if self.round == Round::Load {
            return info;
        }
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
        None
    }

    /// A whole tensor as f32; empty while checking.
    pub(crate) fn values(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        if self.ask(name, shape).is_none() {
            return Ok(Vec::new());
        }
        let mut values = vec![0.0; shape.iter().product()];
        self.weights.read_rows(name, 0..shape.first().copied().unwrap_or(1), &mut values)?;
        Ok(values)
    }

    /// A matrix `[outputs, inputs]` without bias.
    pub(crate) fn matrix(&mut self, name: &str, outputs: usize, inputs: usize) -> Result<Linear> {
        self.matrix_rows(name, outputs, inputs, |row| row)
    }

    /// A matrix whose row `r` lies at row `place(r)` of the file.
    pub(crate) fn matrix_rows(
        &mut self,
        name: &str,
        outputs: usize,
        inputs: usize,
        place: impl Fn(usize) -> usize,
    ) -> Result<Linear> {
        self.slice(name, &[outputs, inputs], 0, outputs, place)
    }

    /// Rows `first..first + outputs` of a taller matrix, for projections stored together.
    pub(crate) fn rows_of(
        &mut self,
        name: &str,
        shape: [usize; 2],
        first: usize,
        outputs: usize,
    ) -> Result<Linear> {
        self.slice(name, &shape, first, outputs, |row| row)
    }

    fn slice(
        &mut self,
        name: &str,
        shape: &[usize; 2],
        first: usize,
        outputs: usize,
        place: impl Fn(usize) -> usize,
    ) -> Result<Linear> {
        let inputs = shape[1];
        if self.ask(name, shape).is_none() {
            return Ok(nothing());
        }
        let in_order = (first..first + outputs).all(|row| place(row) == row);
        Linear::stream(outputs, inputs, self.storage, |start, out: &mut [f32]| {
            let start = first + start;
            if in_order {
                let rows = start..start + out.len() / inputs;
                return self.weights.read_rows(name, rows, out);
            }
            for (r, row) in out.chunks_exact_mut(inputs).enumerate() {
                let at = place(start + r);
                self.weights.read_rows(name, at..at + 1, row)?;
            }
            Ok(())
        })
    }

    /// A matrix whose row `r` is multiplied by `scale[r]`.
    pub(crate) fn scaled(
        &mut self,
        name: &str,
        outputs: usize,
        inputs: usize,
        scale: &[f32],
    ) -> Result<Linear> {
        if self.ask(name, &[outputs, inputs]).is_none() {
            return Ok(nothing());
        }
        Linear::stream(outputs, inputs, self.storage, |start, out: &mut [f32]| {
            self.weights.read_rows(name, start..start + out.len() / inputs, out)?;
            for (row, scale) in out.chunks_exact_mut(inputs).zip(&scale[start..]) {
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
    ) -> Result<Linear> {
        let linear = self.matrix(&format!("{name}.weight"), outputs, inputs)?;
        if !bias {
            return Ok(linear);
        }
        let bias = self.values(&format!("{name}.bias"), &[outputs])?;
        Ok(linear.with_bias(bias))
    }

    /// GPT-2's `Conv1D`: `name.weight` `[inputs, outputs]` and `name.bias`, split into parts of
    /// `outputs / parts` each.
    pub(crate) fn conv1d(
        &mut self,
        name: &str,
        outputs: usize,
        inputs: usize,
        parts: usize,
    ) -> Result<Vec<Linear>> {
        let weights = self.values(&format!("{name}.weight"), &[inputs, outputs])?;
        let bias = self.values(&format!("{name}.bias"), &[outputs])?;
        if self.checking() {
            return Ok((0..parts).map(|_| nothing()).collect());
        }
        let width = outputs / parts;
        Ok((0..parts)
            .map(|part| {
                let columns = part * width..(part + 1) * width;
                let block: Vec<f32> = weights
                    .chunks_exact(outputs)
                    .flat_map(|row| row[columns.clone()].iter().copied())
                    .collect();
                Linear::pack(&block, width, inputs, Layout::InOut, self.storage)
                    .with_bias(bias[columns].to_vec())
            })
            .collect())
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

    /// A lookup table.
    pub(crate) fn table(&mut self, name: &str, rows: usize, width: usize) -> Result<Table> {
        if self.ask(name, &[rows, width]).is_none() {
            return Ok(Table::Tied(Arc::new(nothing())));
        }
        Table::stream(rows, width, self.storage, |row, out: &mut [f32]| {
            self.weights.read_rows(name, row..row + 1, out)
        })
    }

    /// The matrix of a token table that is also the decoder. If the file stores `decoder` as well, the
    /// two must be equal.
    pub(crate) fn tied(
        &mut self,
        table: &str,
        decoder: &str,
        rows: usize,
        width: usize,
    ) -> Result<Linear> {
        let linear = self.matrix(table, rows, width)?;
        if self.has(decoder) {
            self.ask(decoder, &[rows, width]);
            if !self.checking() {
                self.equal(table, decoder, rows, width)?;
            }
        }
        Ok(linear)
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

/// The empty matrix of the checking round.
fn nothing() -> Linear {
    Linear::pack(&[], 0, 0, Layout::OutIn, Storage::F32)
}
