//! How far a run is, in a line with the time left.

use std::time::Instant;

use crate::{plan::Cell, row::Row};

/// Progress of a run; work is weighed by the plan's nominal costs.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    cells: usize,
    finished: usize,
    weight: f64,
    weight_done: f64,
    /// Cells that were made here.
    made: usize,
}

impl Progress {
    /// Progress over some cells with their total weight; `already` were done before.
    pub fn new(cells: usize, already: usize, weight: f64) -> Self {
        Self { begun: Instant::now(), cells, finished: already, weight, weight_done: 0.0, made: 0 }
    }

    /// One more cell is done.
    pub fn done(&mut self, cell: &Cell, row: &Row, weight: f64) -> String {
        (self.finished, self.made) = (self.finished + 1, self.made + 1);
        self.weight_done += weight;
        let value = row.samples.first().and_then(|sample| sample.value);
        let value = value.map(|value| format!("  reward {value:.3}")).unwrap_or_default();
        let (finished, cells, id, left) = (self.finished, self.cells, &cell.id, self.left());
        format!("{finished:>5}/{cells} {id}{value}  {:.1} s, {left} left", row.seconds(0))
    }

    /// The time left, once enough is done to tell: the first cells load and warm up.
    fn left(&self) -> String {
        if self.made < 3 || self.weight_done < 0.02 * self.weight || self.weight_done <= 0.0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_once_enough_is_done() {
        let mut progress = Progress::new(100, 0, 100.0);
        assert_eq!(progress.left(), "?");
        (progress.made, progress.weight_done) = (2, 50.0);
        assert_eq!(progress.left(), "?");
        (progress.made, progress.weight_done) = (3, 1.0);
        assert_eq!(progress.left(), "?");
        progress.weight_done = 2.0;
        assert_ne!(progress.left(), "?");
    }
}
