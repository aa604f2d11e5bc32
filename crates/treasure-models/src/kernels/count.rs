//! How many floating-point operations the matrix products of this process have done.
//!
//! Two per multiply-add, of weights and of attention; norms and activations are left out. The count is for
//! benchmarks and enters no result; without the feature `bench` nothing is counted.

#[cfg(feature = "bench")]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "bench")]
static DONE: AtomicU64 = AtomicU64::new(0);

/// The operations done so far by all threads.
#[cfg(feature = "bench")]
pub fn operations() -> u64 {
    DONE.load(Ordering::Relaxed)
}

/// Adds multiply-adds that are about to be done.
#[cfg_attr(not(feature = "bench"), expect(unused_variables))]
pub(crate) fn count(multiply_adds: usize) {
    #[cfg(feature = "bench")]
    DONE.fetch_add(2 * multiply_adds as u64, Ordering::Relaxed);
}
