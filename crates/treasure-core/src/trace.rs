//! A JSON Lines trace: one event a line, readable by any program (`docs/trace.md`).
//!
//! Guarantees: the first line names the schema and its version; every line is one JSON object; a
//! failing writer stops the search and its error is handed back by [`TraceWriter::finish`].

use std::{
    io::{self, Write},
    ops::ControlFlow,
};

use serde::Serialize;

use crate::{Event, Observer};

/// The name of the trace schema.
pub const TRACE_SCHEMA: &str = "treasure-trace";

/// The version of the trace schema; it changes when a field changes its meaning or goes away.
pub const TRACE_VERSION: u32 = 1;

/// Writes events as JSON Lines.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    error: Option<io::Error>,
}

#[derive(Serialize)]
struct Header<'a> {
    schema: &'a str,
    version: u32,
}

impl<W: Write> TraceWriter<W> {
    /// A trace on a writer (buffer it); writes the header line.
    pub fn new(out: W) -> Self {
        let mut trace = Self { out, error: None };
        trace.line(&Header { schema: TRACE_SCHEMA, version: TRACE_VERSION });
        trace
    }

    /// Writes any value as one more line, for instance what only the caller knows about the run.
    pub fn line(&mut self, value: &impl Serialize) {
        if self.error.is_none() {
            let written =
                serde_json::to_vec(value).map_err(io::Error::from).and_then(|mut line| {
                    line.push(b'\n');
                    self.out.write_all(&line)
                });
            self.error = written.err();
        }
    }

    /// Flushes and hands the writer back, or the first error.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }
}

impl<W: Write> Observer for TraceWriter<W> {
    fn observe(&mut self, event: &Event) -> ControlFlow<()> {
        self.line(event);
        if self.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
