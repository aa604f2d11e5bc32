//! Threads that do the work, a queue before them, and tickets that take it back.
//!
//! Guarantees: nothing here waits on the runtime's threads; a request that does not fit is refused at
//! once; a ticket that is dropped cancels its running work and takes its waiting work out of the queue.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::lanes::Lanes;

/// One piece of work.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

struct Task {
    ticket: u64,
    work: Work,
}

/// Why work was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The queue is full.
    Full {
        /// How much waits.
        waiting: usize,
        /// When to try again, in seconds.
        retry: u64,
    },
    /// No new work is taken.
    Closed,
}

struct State {
    lanes: Lanes<Task>,
    running: usize,
    closed: bool,
    ended: bool,
    tickets: HashMap<u64, Arc<AtomicBool>>,
    next: u64,
    /// About how long a piece of work takes, in seconds.
    pace: f64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    idle: Notify,
    threads: usize,
    max_queue: usize,
    /// What one lane may have waiting.
    max_lane: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every update leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            let Some(task) = state.lanes.pop() else {
                if state.ended {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.running += 1;
            drop(state);
            let began = Instant::now();
            // What a piece of work owes its client is delivered while it unwinds.
            let _ = catch_unwind(AssertUnwindSafe(task.work));
            state = self.state();
            state.running -= 1;
            state.pace += 0.2 * (began.elapsed().as_secs_f64() - state.pace);
            if state.running == 0 && state.lanes.len() == 0 {
                self.idle.notify_waiters();
            }
        }
    }
}

/// The threads and their queue.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    /// `threads` threads before which `max_queue` pieces of work may wait, `max_lane` of one lane.
    pub fn new(threads: usize, max_queue: usize, max_lane: usize) -> std::io::Result<Self> {
        let state = State {
            lanes: Lanes::default(),
            running: 0,
            closed: false,
            ended: false,
            tickets: HashMap::new(),
            next: 0,
            pace: 1.0,
        };
        let threads = threads.max(1);
        let (changed, idle) = (Condvar::new(), Notify::new());
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { state, changed, idle, threads, max_queue, max_lane });
        for number in 0..threads {
            let shared = shared.clone();
            thread::Builder::new().name(format!("search-{number}")).spawn(move || shared.work())?;
        }
        Ok(Self { shared })
    }

    /// A ticket for a request.
    pub fn ticket(&self) -> Ticket {
        let cancel = Arc::new(AtomicBool::new(false));
        let mut state = self.shared.state();
        let id = state.next;
        state.next += 1;
        state.tickets.insert(id, cancel.clone());
        Ticket { id, cancel, shared: self.shared.clone() }
    }

    /// Takes all the work of a ticket, or none of it.
    pub fn submit(&self, ticket: &Ticket, lane: &str, work: Vec<Work>) -> Result<(), Refused> {
        let mut state = self.shared.state();
        if state.closed {
            return Err(Refused::Closed);
        }
        let free = self.shared.threads - state.running;
        let waiting = state.lanes.len();
        let crowded = state.lanes.len_of(lane) + work.len() > self.shared.max_lane + free;
        if waiting + work.len() > self.shared.max_queue + free || crowded {
            let seconds = (waiting + 1) as f64 * state.pace / self.shared.threads as f64;
            let retry = (seconds.ceil() as u64).clamp(1, 120);
            return Err(Refused::Full { waiting, retry });
        }
        for work in work {
            state.lanes.push(lane, Task { ticket: ticket.id, work });
        }
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// The most work that a request can ever have taken.
    pub fn room(&self) -> usize {
        self.shared.max_queue.min(self.shared.max_lane).saturating_add(self.shared.threads)
    }

    /// How much waits, and how much runs.
    pub fn load(&self) -> (usize, usize) {
        let state = self.shared.state();
        (state.lanes.len(), state.running)
    }

    /// Takes no new work.
    pub fn close(&self) {
        self.shared.state().closed = true;
    }

    /// Whether new work is taken.
    pub fn is_open(&self) -> bool {
        !self.shared.state().closed
    }

    /// Returns once nothing waits and nothing runs, or after `patience`; whether it is so.
    pub async fn idle(&self, patience: Duration) -> bool {
        let settled = async {
            loop {
                let told = self.shared.idle.notified();
                tokio::pin!(told);
                told.as_mut().enable();
                if self.load() == (0, 0) {
                    return;
                }
                told.await;
            }
        };
        tokio::time::timeout(patience, settled).await.is_ok()
    }

    /// Drops what waits and cancels what runs.
    pub fn cancel_all(&self) {
        let mut state = self.shared.state();
        let dropped = state.lanes.remove(|_| true);
        state.tickets.values().for_each(|cancel| cancel.store(true, Ordering::SeqCst));
        drop(state);
        // Dropping work tells its client, which takes other locks.
        drop(dropped);
        if self.load() == (0, 0) {
            self.shared.idle.notify_waiters();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.cancel_all();
        self.shared.changed.notify_all();
    }
}

/// A request's claim on the pool; dropping it gives everything back.
pub(crate) struct Ticket {
    id: u64,
    cancel: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl Ticket {
    /// What stops the request's work when set.
    pub fn cancel(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::SeqCst);
        let mut state = self.shared.state();
        state.tickets.remove(&self.id);
        let dropped = state.lanes.remove(|task| task.ticket == self.id);
        let idle = state.running == 0 && state.lanes.len() == 0;
        drop(state);
        drop(dropped);
        if idle {
            self.shared.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn wait(gate: &Arc<(Mutex<bool>, Condvar)>) -> Work {
        let gate = gate.clone();
        Box::new(move || {
            let mut open = gate.0.lock().unwrap();
            while !*open {
                open = gate.1.wait(open).unwrap();
            }
        })
    }

    #[test]
    fn a_full_queue_refuses_whole_requests_and_a_dropped_ticket_makes_room() {
        let pool = Pool::new(1, 2, 2).unwrap();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let first = pool.ticket();
        pool.submit(&first, "a", vec![wait(&gate)]).unwrap();
        while pool.load() != (0, 1) {
            thread::yield_now();
        }
        let second = pool.ticket();
        pool.submit(&second, "a", vec![wait(&gate), wait(&gate)]).unwrap();
        let third = pool.ticket();
        let refused = pool.submit(&third, "b", vec![wait(&gate)]);
        assert!(matches!(refused, Err(Refused::Full { waiting: 2, retry: 1.. })), "{refused:?}");
        drop(second);
        pool.submit(&third, "b", vec![wait(&gate)]).unwrap();
        assert_eq!(pool.load(), (1, 1));
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        while pool.load() != (0, 0) {
            thread::yield_now();
        }
        pool.close();
        assert_eq!(pool.submit(&third, "b", vec![]), Err(Refused::Closed));
    }

    #[test]
    fn work_that_panics_costs_no_thread() {
        let pool = Pool::new(1, 8, 8).unwrap();
        let ticket = pool.ticket();
        let (told, hears) = mpsc::channel();
        let panics: Work = Box::new(|| std::panic::resume_unwind(Box::new("on purpose")));
        pool.submit(&ticket, "", vec![panics, Box::new(move || told.send(1).unwrap())]).unwrap();
        assert_eq!(hears.recv_timeout(Duration::from_secs(10)), Ok(1));
    }
}
