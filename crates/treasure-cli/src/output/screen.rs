//! What is shown on standard error while samples run: a line that says where they stand, or the text as
//! it crystallises. Only on a terminal, and never with `--quiet`.

use std::{
    io::{self, IsTerminal as _},
    ops::ControlFlow,
    sync::atomic::{AtomicUsize, Ordering},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use treasure::{
    Frame,
    core::Event,
    words::{self, Standing},
};

use super::view::view;
use crate::failure::{Failure, Outcome};

/// What is shown; shared by all samples in flight.
#[derive(Debug)]
pub struct Screen {
    bar: ProgressBar,
    watches: bool,
    samples: usize,
    done: AtomicUsize,
}

impl Screen {
    /// A line about one sample, unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        let bar = match quiet {
            true => ProgressBar::hidden(),
            false => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
        };
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self { bar, watches: false, samples: 1, done: AtomicUsize::new(0) }
    }

    /// The same about so many samples.
    #[must_use]
    pub fn about(self, samples: usize) -> Self {
        Self { samples, ..self }
    }

    /// A view of the text, on a terminal only.
    pub fn watching() -> Outcome<Self> {
        if !io::stderr().is_terminal() {
            return Err(Failure::new("--watch: expected a terminal, standard error is none")
                .hint("use --trace FILE.jsonl to keep every step of the search in a file"));
        }
        Ok(Self { watches: true, ..Self::new(false) })
    }

    /// Whether the text is shown while it is searched for.
    pub fn watches(&self) -> bool {
        self.watches
    }

    /// Whether anybody sees it.
    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// One sample is done.
    pub fn one_done(&self) {
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    /// Puts a text in the place of the last one.
    pub fn show(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// Takes everything away, at the end.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Takes everything away while something else is printed.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Moves the line on.
    pub fn event(&self, event: &Event) -> ControlFlow<()> {
        if let Event::Step(step) = event {
            // Samples one by one have a clock each.
            if self.samples == 1 && step.step == 0 {
                self.bar.reset_elapsed();
            }
            let (elapsed, done) = (self.bar.elapsed().as_secs_f64(), self.done());
            let standing = Standing::from(step);
            self.show(match self.samples {
                1 => standing.line(elapsed),
                samples => {
                    let left = words::time_left(elapsed, done, samples);
                    format!("{done} of {samples} samples  {left}{}", standing.line(0.0))
                }
            });
        }
        ControlFlow::Continue(())
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    /// Shows the text of a step.
    pub fn frame(&self, frame: &Frame) -> ControlFlow<()> {
        let (width, height) = terminal_size::terminal_size()
            .map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        self.show(view(&frame.text, &Standing::from(frame).line(0.0), width, height));
        ControlFlow::Continue(())
    }
}
