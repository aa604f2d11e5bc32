//! Searches that begin one after another, so that rows land as they finish.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::session::lock;

/// Lets worker k begin when the first search has come k/N of its way.
pub(crate) struct Stagger {
    workers: usize,
    reached: Mutex<f64>,
    changed: Condvar,
}

impl Stagger {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers, reached: Mutex::new(0.0), changed: Condvar::new() }
    }

    pub(crate) fn wait(&self, worker: usize) {
        let needed = worker as f64 / self.workers as f64;
        let mut reached = lock(&self.reached);
        while *reached < needed {
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn reached(&self, share: f64) {
        let mut reached = lock(&self.reached);
        if share > *reached {
            *reached = share;
            self.changed.notify_all();
        }
    }
}
