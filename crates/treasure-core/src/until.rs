//! Calls that end early: a search that is stopped need not wait for what it has asked for.
//!
//! A call into a denoiser or a reward runs *until* a question is answered with yes: the deadline has
//! passed, the caller has cancelled. Whoever works long asks it on the way, a network between two layers,
//! a reward while it waits for a server, and ends with [`Error::GivenUp`]; whoever does not ask is simply
//! waited for. The question is handed down by thread and not by argument, so that a denoiser or reward
//! need not know of it.

use std::cell::Cell;

use crate::{Error, Flow, Halt, Limits, Result, StopReason};

/// The question: whether nobody waits for the answer any more. May be asked on any thread.
pub type Stopped<'a> = dyn Fn() -> bool + Sync + 'a;

thread_local! {
    /// The question of the innermost call on this thread.
    static ASKED: Cell<Option<&'static Stopped<'static>>> = const { Cell::new(None) };
}

/// Runs `call`; what it calls on this thread can ask `stopped`.
pub fn until<T>(stopped: &Stopped<'_>, call: impl FnOnce() -> T) -> T {
    struct Before(Option<&'static Stopped<'static>>);
    impl Drop for Before {
        fn drop(&mut self) {
            ASKED.set(self.0);
        }
    }
    // SAFETY: the reference is only reached through `ASKED` on this thread. `Before` takes it out of there
    // before `until` ends, by unwinding too, and `given_up` and `lend` let it out for no longer than a call.
    let lent = unsafe { std::mem::transmute::<&Stopped<'_>, &'static Stopped<'static>>(stopped) };
    let _before = Before(ASKED.replace(Some(lent)));
    call()
}

/// Whether nobody waits for the call that runs on this thread.
pub fn given_up() -> bool {
    ASKED.get().is_some_and(|stopped| stopped())
}

/// Lends the question to `call`, which may ask it on threads of its own.
pub fn lend<T>(call: impl FnOnce(&Stopped<'_>) -> T) -> T {
    match ASKED.get() {
        Some(stopped) => call(stopped),
        None => call(&|| false),
    }
}

impl Limits<'_> {
    /// Why no work should go on, if the time is over or the run was cancelled.
    pub(crate) fn over(&self) -> Option<StopReason> {
        if self.cancel.is_some_and(|cancel| cancel.load(std::sync::atomic::Ordering::Relaxed)) {
            return Some(StopReason::Cancelled);
        }
        let deadline = self.deadline.filter(|deadline| deadline.clock.now() >= deadline.at);
        deadline.map(|_| StopReason::Deadline)
    }

    /// Runs a call into a denoiser or a reward that is worth waiting for only within these limits. One that
    /// gave up for another reason has failed.
    pub(crate) fn within<T>(&self, call: impl FnOnce() -> Result<T>) -> Flow<T> {
        until(&|| self.over().is_some(), call).map_err(|error| match (error, self.over()) {
            (Error::GivenUp { .. }, Some(reason)) => Halt::Stop(reason),
            (error, _) => Halt::Fail(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_question_is_asked_and_the_outer_one_comes_back() {
        assert!(!given_up());
        until(&|| true, || {
            assert!(given_up());
            until(&|| false, || assert!(!given_up()));
            assert!(given_up());
            lend(|stopped| std::thread::scope(|scope| scope.spawn(|| assert!(stopped())).join()))
                .unwrap();
        });
        assert!(!given_up());
    }

    #[test]
    fn a_panic_takes_the_question_along() {
        let panicked = std::panic::catch_unwind(|| until(&|| true, || panic!("on purpose")));
        assert!(panicked.is_err() && !given_up());
    }
}
