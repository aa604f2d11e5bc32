//! The progress line on standard error: step, masks left, best reward, cost, time left.
//!
//! Only on a terminal and never with `--quiet`; redrawn at most ten times a second.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use super::number;

const INTERVAL: Duration = Duration::from_millis(100);

/// Where a search stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Steps done.
    pub step: usize,
    /// Steps there will be.
    pub steps: usize,
    /// Masks left in the most finished state.
    pub masks_left: usize,
    /// The best reward so far, if any was seen.
    pub best: Option<f64>,
    /// Model calls.
    pub nfe: u64,
    /// Reward calls.
    pub reward_calls: u64,
}

/// A line that is redrawn in place.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    started: Instant,
    drawn: Option<Instant>,
    /// Samples done and to do, where there are several; they may be in flight together.
    batch: Option<(usize, usize)>,
}

impl Progress {
    /// A line that is shown on a terminal unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        let shown = !quiet && io::stderr().is_terminal();
        Self { shown, started: Instant::now(), drawn: None, batch: None }
    }

    /// Starts the clock for one sample, or for a batch of so many.
    pub fn restart(&mut self, samples: usize) {
        self.started = Instant::now();
        self.batch = (samples > 1).then_some((0, samples));
        self.drawn = None;
    }

    /// One sample of the batch is done.
    pub fn one_done(&mut self) {
        if let Some((done, _)) = &mut self.batch {
            *done += 1;
        }
    }

    /// Whether anybody sees the line.
    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// Redraws the line if it is time.
    pub fn update(&mut self, standing: &Standing) {
        if !self.shown || self.drawn.is_some_and(|drawn| drawn.elapsed() < INTERVAL) {
            return;
        }
        let elapsed = self.started.elapsed().as_secs_f64();
        let line = match self.batch {
            None => standing.line(elapsed),
            Some((done, samples)) => {
                let left = match done {
                    0 => String::new(),
                    _ => {
                        let left = elapsed / done as f64 * (samples - done.min(samples)) as f64;
                        format!("{} left  ", number::seconds(left))
                    }
                };
                format!("{done} of {samples} samples  {left}{}", standing.line(0.0))
            }
        };
        self.show(&line);
    }

    /// Puts a line in the place of the last one.
    pub fn show(&mut self, line: &str) {
        if self.shown {
            self.drawn = Some(Instant::now());
            // A line that wraps could not be redrawn in place.
            let width =
                terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
            let line: String = line.chars().take(width.saturating_sub(1)).collect();
            let _ = write!(io::stderr(), "\r\x1b[2K{line}");
        }
    }

    /// Takes the line away, so that something else can be printed.
    pub fn clear(&mut self) {
        if self.shown && self.drawn.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Standing {
    /// The words of the line.
    pub fn line(&self, elapsed: f64) -> String {
        // Short words: a line that does not fit in 80 columns loses its end.
        let mut line = format!("step {}/{}  masks {}", self.step, self.steps, self.masks_left);
        if let Some(best) = self.best {
            line += &format!("  best {}", number::reward(best));
        }
        line += &format!(
            "  nfe {}  calls {}",
            number::count(self.nfe),
            number::count(self.reward_calls)
        );
        if self.step > 0 && self.step < self.steps && elapsed > 0.5 {
            let left = elapsed / self.step as f64 * (self.steps - self.step) as f64;
            line += &format!("  {} left", number::seconds(left));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_where_the_search_stands_and_how_long_it_will_take() {
        let standing = Standing {
            step: 12,
            steps: 48,
            masks_left: 36,
            best: Some(-1.25),
            nfe: 25,
            reward_calls: 1118,
        };
        assert_eq!(
            standing.line(2.0),
            "step 12/48  masks 36  best -1.250  nfe 25  calls 1,118  6.00 s left"
        );
    }
}
