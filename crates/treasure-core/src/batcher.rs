//! Searches that share forward passes: they join and leave at any time, and what they ask for at the
//! same moment runs as one batch.
//!
//! Guarantee: by row invariance every search gets the numbers it would get alone, so this changes time
//! and nothing else; a denoiser without it is asked for each search by itself. A request that fails or
//! panics fails its own search only. A model or reward that is slow holds up nobody who waits for another
//! one, and whoever is stopped while it waits leaves at once.
//!
//! Each search runs on a thread of its own and holds a [`Seat`]. When every seated search waits for an
//! answer, whoever waits for a model that is free runs all that is pending for it in one batch.

mod seat;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use seat::Seat;

use crate::{
    Answer, At, Bans, Denoiser, Draw, Encoding, Error, MaskedSeq, Question, Result, Reward, State,
    TokenId, View, Want, given_up, guard, lend, until,
};

/// How long a search waits before it looks whether it was stopped.
const LOOK: Duration = Duration::from_millis(20);

/// Where the requests of searches meet.
#[derive(Default)]
pub struct Batcher {
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Default)]
struct Desk {
    seated: usize,
    waiting: usize,
    tickets: u64,
    pending: Vec<(u64, Lane, Request)>,
    busy: HashSet<Lane>,
    served: HashMap<u64, Reply>,
    /// Tickets in service whose search waits no longer.
    left: HashSet<u64>,
    shared: Shares,
    traffic: Traffic,
}

/// What a table has served: how full its batches are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Batches that were run.
    pub batches: u64,
    /// Requests in them; more than batches where searches shared one.
    pub requests: u64,
    /// States, questions and views in them.
    pub rows: u64,
}

/// Time shared out: ∫ dt / (searches running), so that the shares of all add up to the whole.
#[derive(Default)]
struct Shares {
    total: f64,
    since: Option<Instant>,
}

impl Shares {
    fn advance(&mut self, running: usize) -> f64 {
        let now = Instant::now();
        if let Some(since) = self.since.replace(now)
            && running > 0
        {
            self.total += now.duration_since(since).as_secs_f64() / running as f64;
        }
        self.total
    }
}

/// Requests that may run together: the same kind of question to the same model.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Lane {
    kind: u8,
    whose: usize,
}

enum Request {
    Encode(Arc<dyn Denoiser>, Vec<(MaskedSeq, f64)>),
    EncodeAfter(Arc<dyn Denoiser>, Vec<(MaskedSeq, f64, Option<Encoding>)>),
    Read(Arc<dyn Denoiser>, Vec<OwnedQuestion>),
    Score(Arc<dyn Reward>, Vec<View>),
}

impl Request {
    fn rows(&self) -> usize {
        match self {
            Self::Encode(_, states) => states.len(),
            Self::EncodeAfter(_, states) => states.len(),
            Self::Read(_, questions) => questions.len(),
            Self::Score(_, views) => views.len(),
        }
    }
}

enum Reply {
    Encodings(Result<Vec<Encoding>>),
    Answers(Result<Vec<Answer>>),
    Scores(Result<Vec<f64>>),
}

fn address<T: ?Sized>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).cast::<()>() as usize
}

/// A [`Question`] that outlives its asker's stack frame.
struct OwnedQuestion {
    seq: MaskedSeq,
    encoding: Encoding,
    bans: Bans,
    argmax: bool,
    confidence: bool,
    top: Vec<At>,
    draws: Vec<Draw>,
    logprobs: Vec<(usize, TokenId)>,
    rows: Vec<usize>,
}

impl OwnedQuestion {
    fn new(question: &Question<'_>) -> Self {
        let Want { argmax, confidence, top, draws, logprobs, rows } = question.want;
        Self {
            seq: question.seq.clone(),
            encoding: question.encoding.clone(),
            bans: question.bans.clone(),
            argmax,
            confidence,
            top: top.to_vec(),
            draws: draws.to_vec(),
            logprobs: logprobs.to_vec(),
            rows: rows.to_vec(),
        }
    }

    fn borrow(&self) -> Question<'_> {
        let want = Want {
            argmax: self.argmax,
            confidence: self.confidence,
            top: &self.top,
            draws: &self.draws,
            logprobs: &self.logprobs,
            rows: &self.rows,
        };
        Question { seq: &self.seq, encoding: &self.encoding, bans: &self.bans, want }
    }
}

impl Batcher {
    /// A table with nobody at it.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Takes a seat for a search that is about to run on this thread.
    pub fn join(self: &Arc<Self>) -> Seat {
        let mut desk = self.desk();
        let running = desk.seated;
        let began = desk.shared.advance(running);
        desk.seated += 1;
        drop(desk);
        Seat { batcher: self.clone(), began }
    }

    /// How many searches are seated.
    pub fn seated(&self) -> usize {
        self.desk().seated
    }

    /// What was served so far.
    pub fn traffic(&self) -> Traffic {
        self.desk().traffic
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Every update leaves the desk whole.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a request in and waits for its reply, serving a whole lane when it is time to.
    fn ask(&self, lane: Lane, request: Request) -> Result<Reply> {
        let mut desk = self.desk();
        let ticket = desk.tickets;
        desk.tickets += 1;
        desk.waiting += 1;
        desk.pending.push((ticket, lane, request));
        self.changed.notify_all();
        loop {
            if let Some(reply) = desk.served.remove(&ticket) {
                return Ok(reply);
            }
            let mine = desk.pending.iter().any(|(other, ..)| *other == ticket);
            if given_up() {
                desk.waiting -= 1;
                match mine {
                    true => desk.pending.retain(|(other, ..)| *other != ticket),
                    false => drop(desk.left.insert(ticket)),
                }
                self.changed.notify_all();
                return Err(Error::GivenUp { whose: "a shared batch".into() });
            }
            let all_wait = desk.waiting >= desk.seated;
            if !(all_wait && mine) || desk.busy.contains(&lane) {
                let waited = self.changed.wait_timeout(desk, LOOK);
                desk = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let (batch, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut desk.pending)
                .into_iter()
                .partition(|(_, other, _)| *other == lane);
            desk.pending = rest;
            desk.traffic.batches += 1;
            desk.traffic.requests += batch.len() as u64;
            desk.traffic.rows +=
                batch.iter().map(|(.., request)| request.rows() as u64).sum::<u64>();
            desk.busy.insert(lane);
            drop(desk);
            let others: Vec<u64> =
                batch.iter().map(|(other, ..)| *other).filter(|other| *other != ticket).collect();
            // A batch is given up when nobody waits for any of it.
            let replies = lend(|mine| {
                let left = || {
                    let desk = self.desk();
                    others.iter().all(|other| desk.left.contains(other))
                };
                until(&|| mine() && left(), || serve(batch))
            });
            desk = self.desk();
            desk.busy.remove(&lane);
            for (ticket, reply) in replies {
                if !desk.left.remove(&ticket) {
                    // Who has a reply thinks on: the next batch waits for it.
                    desk.waiting -= 1;
                    desk.served.insert(ticket, reply);
                }
            }
            self.changed.notify_all();
        }
    }
}

/// Runs the requests of one lane, each kind as one batch.
fn serve(batch: Vec<(u64, Lane, Request)>) -> Vec<(u64, Reply)> {
    let (mut states, mut questions, mut views) = (Vec::new(), Vec::new(), Vec::new());
    let mut later = Vec::new();
    let (mut denoiser, mut reward) = (None, None);
    for (ticket, _, request) in batch {
        match request {
            Request::Encode(by, items) => {
                denoiser = Some(by);
                states.push((ticket, items));
            }
            Request::EncodeAfter(by, items) => {
                denoiser = Some(by);
                later.push((ticket, items));
            }
            Request::Read(by, items) => {
                denoiser = Some(by);
                questions.push((ticket, items));
            }
            Request::Score(by, items) => {
                reward = Some(by);
                views.push((ticket, items));
            }
        }
    }
    let mut replies = Vec::new();
    if let Some(denoiser) = denoiser {
        let encoded = merged(&states, |batch: &[&(MaskedSeq, f64)]| {
            let batch: Vec<_> = batch.iter().map(|(seq, t)| State { seq, t: *t }).collect();
            guard::denoiser(|| denoiser.encode(&batch))
        });
        replies.extend(encoded.into_iter().map(|(ticket, r)| (ticket, Reply::Encodings(r))));
        let encoded = merged(&later, |batch: &[&(MaskedSeq, f64, Option<Encoding>)]| {
            let before: Vec<_> = batch.iter().map(|(.., before)| before.as_ref()).collect();
            let batch: Vec<_> = batch.iter().map(|(seq, t, _)| State { seq, t: *t }).collect();
            guard::denoiser(|| denoiser.encode_after(&batch, &before))
        });
        replies.extend(encoded.into_iter().map(|(ticket, r)| (ticket, Reply::Encodings(r))));
        let answered = merged(&questions, |batch: &[&OwnedQuestion]| {
            let batch: Vec<_> = batch.iter().map(|question| question.borrow()).collect();
            guard::denoiser(|| denoiser.read(&batch))
        });
        replies.extend(answered.into_iter().map(|(ticket, r)| (ticket, Reply::Answers(r))));
    }
    if let Some(reward) = reward {
        let scored =
            merged(&views, |batch: &[&View]| guard::reward(&*reward, || reward.score(batch)));
        replies.extend(scored.into_iter().map(|(ticket, r)| (ticket, Reply::Scores(r))));
    }
    replies
}

/// Runs all requests as one batch; where that fails, each alone, so that the culprit alone fails.
fn merged<I, O>(
    requests: &[(u64, Vec<I>)],
    run: impl Fn(&[&I]) -> Result<Vec<O>>,
) -> Vec<(u64, Result<Vec<O>>)> {
    let all: Vec<&I> = requests.iter().flat_map(|(_, items)| items).collect();
    if all.is_empty() {
        return requests.iter().map(|&(ticket, _)| (ticket, Ok(Vec::new()))).collect();
    }
    let alone = |items: &[I]| run(&items.iter().collect::<Vec<_>>());
    if let [(ticket, items)] = requests {
        return vec![(*ticket, alone(items))];
    }
    match run(&all) {
        Ok(outputs) if outputs.len() == all.len() => {
            let mut outputs = outputs.into_iter();
            requests
                .iter()
                .map(|(ticket, items)| (*ticket, Ok(outputs.by_ref().take(items.len()).collect())))
                .collect()
        }
        // A wrong row count is reported by the problem that asked, so it must see its own.
        _ => requests.iter().map(|(ticket, items)| (*ticket, alone(items))).collect(),
    }
}
