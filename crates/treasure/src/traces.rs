//! The trace beside a file of rows: every event of every search, as JSON Lines (`docs/trace.md`).
//!
//! Each sample is one trace: a header line, a line that names prompt and sample, then its events. It is
//! written whole, in job order and before its row, so that no row is without one. Guarantee: continuing
//! keeps the traces of the rows that are there and cuts off what stands behind the last of them, whose
//! sample is made again.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::Value;
use treasure_core::TRACE_SCHEMA;

use crate::{Error, ErrorKind, Growing, Identity, Result, growing::expect_empty};

/// An open trace file; it is created with the first sample.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    out: Option<Out>,
    repaired: Repaired,
}

/// What continuing a trace file found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Traces that stayed.
    pub kept: usize,
    /// Bytes that were cut off.
    pub dropped: usize,
    /// Rows without a trace, from a run that wrote none.
    pub missing: usize,
}

#[derive(Debug)]
enum Out {
    File(Growing),
    /// A pipe or a device, which cannot be continued.
    Stream(File),
}

impl TraceFile {
    /// A new trace at a path whose folder must exist; a file that holds something is left as it is.
    pub fn create(path: &Path) -> Result<Self> {
        check(path)?;
        if let Ok(what) = path.metadata()
            && what.is_file()
        {
            expect_empty(path, what.len())?;
        }
        Ok(Self { path: path.into(), out: None, repaired: Repaired::default() })
    }

    /// A trace that goes on beside rows: `rows` are those that are there, in order.
    pub fn resume(path: &Path, rows: &[Identity]) -> Result<Self> {
        check(path)?;
        let (mut file, bytes) = Growing::open(path)?;
        let (kept, whole) = matching(&bytes, rows);
        let dropped = bytes.len() - whole;
        file.cut(whole as u64).map_err(|error| cannot_write(path, error))?;
        let repaired = Repaired { kept, dropped, missing: rows.len() - kept };
        Ok(Self { path: path.into(), out: Some(Out::File(file)), repaired })
    }

    /// What continuing it found.
    pub fn repaired(&self) -> Repaired {
        self.repaired
    }

    /// What a run that continues the file should say about it.
    pub fn notes(&self) -> Vec<String> {
        let (path, Repaired { dropped, missing, .. }) = (self.path.display(), self.repaired);
        let mut notes = Vec::new();
        if dropped > 0 {
            notes.push(format!("{path}: a trace without its row was cut off ({dropped} bytes)"));
        }
        if missing > 0 {
            notes.push(format!("{path}: {missing} of the rows have no trace"));
        }
        notes
    }

    /// Writes the trace of one sample, whole or not at all.
    pub fn write(&mut self, trace: &[u8]) -> Result<()> {
        let path = &self.path;
        let out = match &mut self.out {
            Some(out) => out,
            none => none.insert(open(path)?),
        };
        match out {
            Out::File(file) => file.append(trace),
            Out::Stream(stream) => stream.write_all(trace).and_then(|()| stream.flush()),
        }
        .map_err(|error| cannot_write(path, error))
    }
}

fn open(path: &Path) -> Result<Out> {
    if path.metadata().is_ok_and(|what| !what.is_file()) {
        let stream = OpenOptions::new().write(true).open(path);
        return stream.map(Out::Stream).map_err(|error| cannot_write(path, error));
    }
    Growing::fresh(path).map(Out::File)
}

fn check(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        let message = format!("trace {}: is no place for a file", path.display());
        return Err(Error::new(ErrorKind::Io, message)
            .with_hint("name a file that may be written, in a folder that is there"));
    }
    Ok(())
}

fn cannot_write(path: &Path, error: std::io::Error) -> Error {
    Error::from(error)
        .context(format!("{}: cannot be written", path.display()))
        .with_hint("the finished rows and their traces are kept: make room and resume")
}

/// How many traces from the start stand for the rows in order, and where the last of them ends.
///
/// A row is written after its trace, so the trace of a row that is there is whole: it goes on to the next
/// one. Rows from a run without traces may come first.
fn matching(bytes: &[u8], rows: &[Identity]) -> (usize, usize) {
    let (mut kept, mut whole, mut at) = (0, 0, 0);
    let (mut rows, mut header) = (rows.iter(), false);
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let read = |line: &[u8]| serde_json::from_slice::<Value>(line).ok();
        let Some(value) = read(line).filter(|_| line.ends_with(b"\n")) else { break };
        at += line.len();
        if value.get("schema").is_some_and(|schema| schema == TRACE_SCHEMA) {
            header = true;
            continue;
        }
        if header {
            let number = |field: &str| value.get(field).and_then(Value::as_u64);
            let named = number("prompt_index").zip(number("sample"));
            if !named.is_some_and(|named| rows.any(|row| *row == named)) {
                break;
            }
            (kept, header) = (kept + 1, false);
        } else if kept == 0 {
            break;
        }
        whole = at;
    }
    (kept, whole)
}
