//! The `--trace` file: every event of every search, as JSON Lines (`docs/trace.md`).
//!
//! Each sample is one trace: a header line, a line that names prompt and sample, then its events.
//! A sample is written whole when it ends, in job order, so samples in flight never mix and the file
//! is the same at any number of threads.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use crate::failure::{Failure, Outcome};

/// An open trace file; it is created with the first sample.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    /// Keep what is there, because the run continues another one.
    append: bool,
    file: Option<File>,
}

impl TraceFile {
    /// A trace to a path whose folder must exist.
    pub fn new(path: &Path, append: bool) -> Outcome<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(Failure::new(format!(
                "--trace {}: is no place for a file",
                path.display()
            )));
        }
        Ok(Self { path: path.into(), append, file: None })
    }

    /// Writes the trace of one sample.
    pub fn write(&mut self, trace: &[u8]) -> Outcome<()> {
        let failed = |error: std::io::Error| {
            Failure::new(error).context(format!("{}: cannot be written", self.path.display()))
        };
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = OpenOptions::new()
                    .create(true)
                    .write(true)
                    .append(self.append)
                    .truncate(!self.append)
                    .open(&self.path)
                    .map_err(failed)?;
                none.insert(file)
            }
        };
        file.write_all(trace).and_then(|()| file.flush()).map_err(failed)
    }
}
