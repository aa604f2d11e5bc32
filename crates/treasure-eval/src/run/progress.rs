//! One line of progress on stderr, with the time left.

use std::{
    io::{IsTerminal, Write as _},
    time::Instant,
};

use crate::{plan::Cell, row::Row};

/// Progress of a run; work is weighed by the plan's nominal costs.
#[derive(Debug)]
pub struct Progress {
    quiet: bool,
    terminal: bool,
    begun: Instant,
    cells: usize,
    finished: usize,
    weight: f64,
    weight_done: f64,
}

impl Progress {
    /// Progress over some cells with their total weight; `already` were done before.
    pub fn new(quiet: bool, cells: usize, already: usize, weight: f64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let (begun, finished) = (Instant::now(), already);
        Self { quiet, terminal, begun, cells, finished, weight, weight_done: 0.0 }
    }

    /// A message on a line of its own.
    pub fn say(&self, message: &str) {
        if !self.quiet {
            let start = if self.terminal { "\r\x1b[2K" } else { "" };
            eprintln!("{start}{message}");
        }
    }

    /// One more cell is done.
    pub fn done(&mut self, cell: &Cell, row: &Row, weight: f64) {
        self.finished += 1;
        self.weight_done += weight;
        if self.quiet {
            return;
        }
        let value = row.samples.first().and_then(|sample| sample.value);
        let value = value.map(|value| format!("  reward {value:.3}")).unwrap_or_default();
        let line = format!(
            "{:>5}/{} {}{value}  {:.1} s, {} left",
            self.finished,
            self.cells,
            cell.id,
            row.seconds(0),
            self.left()
        );
        let mut out = std::io::stderr().lock();
        // Progress that cannot be shown is no reason to lose a run.
        let _ = match self.terminal {
            true => write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush()),
            false => writeln!(out, "{line}"),
        };
    }

    /// Ends the progress line.
    pub fn end(&self) {
        if self.terminal && !self.quiet {
            eprintln!();
        }
    }

    fn left(&self) -> String {
        if self.weight_done <= 0.0 {
            return "?".into();
        }
        let rest = (self.weight - self.weight_done).max(0.0) / self.weight_done;
        duration(self.begun.elapsed().as_secs_f64() * rest)
    }
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
