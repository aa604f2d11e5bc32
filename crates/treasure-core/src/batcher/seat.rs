//! A place at the table: what a search asks through it runs with what the others ask.

use std::sync::Arc;

use super::{Batcher, Lane, OwnedQuestion, Reply, Request, address};
use crate::{Answer, Denoiser, Encoding, Question, Range, Result, Reward, State, View, Wrapper};

/// A search's place at the table; dropping it may complete a batch for those who stay.
pub struct Seat {
    pub(super) batcher: Arc<Batcher>,
    pub(super) began: f64,
}

impl Seat {
    /// A denoiser whose requests run with those of the others.
    pub fn denoiser(&self, inner: Arc<dyn Denoiser>) -> impl Denoiser + use<> {
        Seated { batcher: self.batcher.clone(), inner }
    }

    /// A reward whose requests run with those of the others; each search reads its own sequences.
    pub fn reward(&self, inner: Arc<dyn Reward>) -> impl Reward + use<> {
        SeatedReward { batcher: self.batcher.clone(), inner }
    }

    /// The seconds since this search took its seat, shared with those who ran beside it.
    pub fn seconds(&self) -> f64 {
        let mut desk = self.batcher.desk();
        let running = desk.seated;
        desk.shared.advance(running) - self.began
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut desk = self.batcher.desk();
        let running = desk.seated;
        desk.shared.advance(running);
        desk.seated -= 1;
        drop(desk);
        self.batcher.changed.notify_all();
    }
}

struct Seated {
    batcher: Arc<Batcher>,
    inner: Arc<dyn Denoiser>,
}

impl Wrapper for Seated {
    fn inner(&self) -> &dyn Denoiser {
        &*self.inner
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        if !self.inner.row_invariant() {
            return self.inner.encode(batch);
        }
        let states = batch.iter().map(|state| (state.seq.clone(), state.t)).collect();
        let lane = Lane { kind: 0, whose: address(&self.inner) };
        match self.batcher.ask(lane, Request::Encode(self.inner.clone(), states))? {
            Reply::Encodings(result) => result,
            _ => unreachable!("a ticket gets the kind of reply it asked for"),
        }
    }

    fn encode_after(
        &self,
        batch: &[State<'_>],
        before: &[Option<&Encoding>],
    ) -> Result<Vec<Encoding>> {
        if !self.inner.row_invariant() {
            return self.inner.encode_after(batch, before);
        }
        let owned = |(state, before): (&State<'_>, &Option<&Encoding>)| {
            (state.seq.clone(), state.t, before.cloned())
        };
        let states = batch.iter().zip(before).map(owned).collect();
        let lane = Lane { kind: 3, whose: address(&self.inner) };
        match self.batcher.ask(lane, Request::EncodeAfter(self.inner.clone(), states))? {
            Reply::Encodings(result) => result,
            _ => unreachable!("a ticket gets the kind of reply it asked for"),
        }
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        if !self.inner.row_invariant() {
            return self.inner.read(batch);
        }
        let questions = batch.iter().map(OwnedQuestion::new).collect();
        let lane = Lane { kind: 1, whose: address(&self.inner) };
        match self.batcher.ask(lane, Request::Read(self.inner.clone(), questions))? {
            Reply::Answers(result) => result,
            _ => unreachable!("a ticket gets the kind of reply it asked for"),
        }
    }
}

struct SeatedReward {
    batcher: Arc<Batcher>,
    inner: Arc<dyn Reward>,
}

impl Reward for SeatedReward {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        let views = batch.iter().map(|&view| view.clone()).collect();
        let lane = Lane { kind: 2, whose: address(&self.inner) };
        match self.batcher.ask(lane, Request::Score(self.inner.clone(), views))? {
            Reply::Scores(result) => result,
            _ => unreachable!("a ticket gets the kind of reply it asked for"),
        }
    }

    fn range(&self) -> Range {
        self.inner.range()
    }
}
