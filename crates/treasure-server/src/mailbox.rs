//! What searches have to tell a client, between threads that must not wait and a reader that may.
//!
//! Guarantees: putting something in never waits; frames that a slow reader has not fetched push the
//! oldest out, whose events move on to the next; an answer or a failure is never lost.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use treasure::Sample;

use crate::{follow::Snapshot, refusal::Refusal};

/// Frames that wait for a slow reader, of all searches together.
const FRAMES: usize = 64;

/// Something to tell.
pub(crate) enum Letter {
    /// The text as it stands.
    Frame(Snapshot),
    /// The tokens that can no longer change, from the first generated one.
    Settled(Vec<u32>),
    /// The answer, and its last frame.
    Done(Box<Sample>, Option<Snapshot>),
    /// There will be no answer.
    Failed(Refusal),
}

/// What waits of one search.
#[derive(Default)]
struct Slot {
    frames: VecDeque<Snapshot>,
    settled: Option<Vec<u32>>,
    end: Option<Letter>,
}

impl Slot {
    fn take(&mut self) -> Option<Letter> {
        let frame = self.frames.pop_front().map(Letter::Frame);
        frame.or_else(|| self.settled.take().map(Letter::Settled)).or_else(|| self.end.take())
    }
}

struct Inner {
    slots: Vec<Slot>,
    /// Whose turn it is.
    turn: usize,
    dropped: u64,
}

/// The letters of all searches of a request, by the number of the search.
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    arrived: Notify,
    frames: usize,
}

impl Mailbox {
    /// A mailbox for so many searches.
    pub fn new(searches: usize) -> Self {
        let slots = (0..searches).map(|_| Slot::default()).collect();
        let inner = Mutex::new(Inner { slots, turn: 0, dropped: 0 });
        Self { inner, arrived: Notify::new(), frames: (FRAMES / searches.max(1)).max(2) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a letter in.
    pub fn put(&self, search: usize, letter: Letter) {
        let mut inner = self.inner();
        let Some(slot) = inner.slots.get_mut(search) else { return };
        match letter {
            Letter::Frame(frame) => {
                slot.frames.push_back(frame);
                if slot.frames.len() > self.frames
                    && let Some(oldest) = slot.frames.pop_front()
                    && let Some(next) = slot.frames.front_mut()
                {
                    let later = std::mem::replace(&mut next.events, oldest.events);
                    next.events.extend(later);
                    inner.dropped += 1;
                }
            }
            // A later one holds all of the earlier.
            Letter::Settled(tokens) => slot.settled = Some(tokens),
            end => slot.end = Some(end),
        }
        drop(inner);
        self.arrived.notify_one();
    }

    /// The next letter; searches take turns.
    pub async fn next(&self) -> (usize, Letter) {
        loop {
            if let Some(found) = self.take() {
                return found;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<(usize, Letter)> {
        let mut inner = self.inner();
        let (searches, turn) = (inner.slots.len(), inner.turn);
        for search in (turn..searches).chain(0..turn) {
            if let Some(letter) = inner.slots[search].take() {
                inner.turn = (search + 1) % searches;
                return Some((search, letter));
            }
        }
        None
    }

    /// How many frames a slow reader missed.
    pub fn dropped(&self) -> u64 {
        self.inner().dropped
    }
}

#[cfg(test)]
mod tests {
    use treasure::core::{Event, Note};

    use super::*;
    use crate::follow::Told;

    #[tokio::test]
    async fn a_slow_reader_misses_frames_and_neither_events_nor_the_end() {
        let mailbox = Mailbox::new(1);
        for step in 0..200 {
            let note = Note { what: "step".into(), message: step.to_string() };
            let events = vec![Told { event: Event::Note(note), p: None }];
            mailbox.put(0, Letter::Frame(Snapshot { step, events, ..Snapshot::default() }));
        }
        mailbox.put(0, Letter::Failed(Refusal::draining()));
        let (mut frames, mut events) = (Vec::new(), Vec::new());
        while let (0, Letter::Frame(frame)) = mailbox.next().await {
            frames.push(frame.step);
            events.extend(frame.events);
        }
        assert_eq!(frames, (200 - FRAMES..200).collect::<Vec<_>>());
        assert_eq!(events.len(), 200);
        assert_eq!(mailbox.dropped(), (200 - FRAMES) as u64);
    }
}
