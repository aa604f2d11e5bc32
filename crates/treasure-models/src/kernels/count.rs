//! How many floating-point operations the matrix products of this process have done.
//!
//! Two per multiply-add, of weights and of attention; norms and activations are left out. The count is for
//! benchmarks and enters no result.

use std::sync::atomic::{AtomicU64, Ordering};

static DONE: AtomicU64 = AtomicU64::new(0);

/// The operations done so far by all threads.
pub fn operations() -> u64 {
    DONE.load(Ordering::Relaxed)
}

/// Adds multiply-adds that are about to be done.
pub(crate) fn count(multiply_adds: usize) {
    DONE.fetch_add(2 * multiply_adds as u64, Ordering::Relaxed);
}
