//! A way to stop a reward that waits: for a server, for a program, or between two batches.
//!
//! Guarantee: once it is raised, its deadline has passed, or the search that waits for the reward has been
//! stopped ([`treasure_core::given_up`]), whoever waits ends within 0.2 s with [`Error::Interrupted`] and
//! leaves nothing running. Where there is no such search, one that nobody made never stops anything.

#[cfg(any(feature = "exec", feature = "remote"))]
use std::time::Duration;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crate::{Error, Result};

/// How long a wait may last before it looks again.
#[cfg(any(feature = "exec", feature = "remote"))]
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Raised by a caller, looked at by rewards that wait. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    flag: Arc<AtomicBool>,
    deadline: Mutex<Option<Instant>>,
}

impl Interrupt {
    /// One that never stops anything.
    pub const NEVER: Self = Self(None);

    /// One that can be raised.
    pub fn new() -> Self {
        Self::watching(Arc::default())
    }

    /// One that is raised by the caller's own flag.
    pub fn watching(flag: Arc<AtomicBool>) -> Self {
        Self(Some(Arc::new(State { flag, deadline: Mutex::default() })))
    }

    /// Stops whoever waits, now and later, until it is lowered.
    pub fn raise(&self) {
        self.set(true);
    }

    /// Lets rewards wait again.
    pub fn lower(&self) {
        self.set(false);
    }

    fn set(&self, raised: bool) {
        if let Some(state) = &self.0 {
            state.flag.store(raised, Ordering::Relaxed);
        }
    }

    /// Stops whoever still waits at `deadline`; `None` takes an earlier deadline back.
    pub fn at(&self, deadline: Option<Instant>) {
        if let Some(state) = &self.0 {
            *state.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
        }
    }

    /// Whether it is raised, its deadline has passed, or nobody waits for what runs on this thread.
    pub fn is_raised(&self) -> bool {
        if treasure_core::given_up() {
            return true;
        }
        self.0.as_ref().is_some_and(|state| {
            let deadline = *state.deadline.lock().unwrap_or_else(PoisonError::into_inner);
            state.flag.load(Ordering::Relaxed) || deadline.is_some_and(|end| Instant::now() >= end)
        })
    }

    /// An error in the name of a reward if it is raised.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        if self.is_raised() { Err(Error::Interrupted { name: name.into() }) } else { Ok(()) }
    }

    /// Sleeps, but not on when it is raised.
    #[cfg(feature = "remote")]
    pub(crate) fn sleep(&self, pause: Duration) {
        let end = Instant::now() + pause;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) {
            if self.is_raised() {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}
