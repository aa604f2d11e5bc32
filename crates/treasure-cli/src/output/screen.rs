//! What is shown while samples run: a progress line, or the text as it forms.

use std::{
    ops::ControlFlow,
    sync::{Mutex, MutexGuard, PoisonError},
};

use treasure::{Frame, core::Event};

use super::{
    progress::{Progress, Standing},
    watch::Watch,
};

/// What is shown; shared by all samples in flight.
#[derive(Debug)]
pub struct Screen {
    content: Mutex<Content>,
}

#[derive(Debug)]
struct Content {
    progress: Progress,
    watch: Option<Watch>,
}

impl Screen {
    /// A screen with a progress line, or with a view of the text.
    pub fn new(progress: Progress, watch: Option<Watch>) -> Self {
        Self { content: Mutex::new(Content { progress, watch }) }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // A line on the screen is never half-made in a way that matters.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many samples begin.
    pub fn begin(&self, samples: usize) {
        self.content().progress.restart(samples);
    }

    /// One of them is done.
    pub fn one_done(&self) {
        self.content().progress.one_done();
    }

    /// Takes everything away, so that something else can be printed.
    pub fn clear(&self) {
        let mut content = self.content();
        content.progress.clear();
        if let Some(watch) = &mut content.watch {
            watch.clear();
        }
    }

    /// Whether the text is shown while it is searched for.
    pub fn watches(&self) -> bool {
        self.content().watch.is_some()
    }

    /// Moves the progress line on.
    pub fn event(&self, event: &Event) -> ControlFlow<()> {
        if let Event::Step(step) = event {
            self.content().progress.update(&Standing {
                step: step.step + 1,
                steps: step.steps,
                masks_left: step.masks_left,
                best: step.best_reward.or(step.best_value),
                nfe: step.cost.nfe,
                reward_calls: step.cost.reward_calls,
            });
        }
        ControlFlow::Continue(())
    }

    /// Shows the text of a step.
    pub fn frame(&self, frame: &Frame) -> ControlFlow<()> {
        let standing = Standing {
            step: frame.step,
            steps: frame.steps,
            masks_left: frame.masks_left,
            best: frame.reward,
            nfe: frame.nfe,
            reward_calls: frame.reward_calls,
        };
        if let Some(watch) = &mut self.content().watch
            && (watch.is_due() || frame.masks_left == 0)
        {
            watch.draw(&frame.text, &standing.line(0.0));
        }
        ControlFlow::Continue(())
    }
}
