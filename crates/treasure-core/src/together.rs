//! Several samples in flight: their questions meet and run as one batch.
//!
//! Guarantee: by row invariance every sample gets the numbers it would get alone, so this changes
//! time and nothing else. A request that fails or panics fails its own sample only.
//!
//! Each worker thread runs one sample after another. When every worker waits for an answer, the last
//! to arrive runs all that is pending in one batch per kind and wakes the others.

use std::{
    collections::HashMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::{
    Answer, At, Bans, Denoiser, Draw, Encoding, Facts, MaskedSeq, Question, Result, Reward, State,
    TokenId, View, Want, guard,
};

/// Runs `jobs` with up to `in_flight` at once and returns their results in order.
///
/// `run` gets a job with the denoiser and the reward to use for it; both merge the requests of all
/// jobs in flight. `done` sees each result as soon as it is there, in order of completion.
///
/// # Panics
/// If `run` or `done` panics.
pub fn together<J, T, F, D>(
    denoiser: &dyn Denoiser,
    reward: &dyn Reward,
    in_flight: usize,
    jobs: &[J],
    run: F,
    done: D,
) -> Vec<T>
where
    J: Sync,
    T: Send,
    F: Fn(&J, &dyn Denoiser, &dyn Reward) -> T + Sync,
    D: Fn(usize, &T) + Sync,
{
    let workers = in_flight.clamp(1, jobs.len().max(1));
    if workers == 1 {
        let finish = |(index, job)| {
            let result = run(job, denoiser, reward);
            done(index, &result);
            result
        };
        return jobs.iter().enumerate().map(finish).collect();
    }
    let table = Table::new(denoiser, reward, workers);
    let next = Mutex::new(0..jobs.len());
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let _seat = Seat(&table);
                loop {
                    let Some(index) = lock(&next).next() else { break };
                    let result = run(&jobs[index], &table, &table);
                    done(index, &result);
                    lock(&results).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker at the table; leaving it may complete a batch for those who stay.
struct Seat<'a, 'b>(&'a Table<'b>);

impl Drop for Seat<'_, '_> {
    fn drop(&mut self) {
        lock(&self.0.desk).seated -= 1;
        self.0.changed.notify_all();
    }
}

/// Where requests meet.
struct Table<'a> {
    denoiser: &'a dyn Denoiser,
    reward: &'a dyn Reward,
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Default)]
struct Desk {
    seated: usize,
    waiting: usize,
    serving: bool,
    tickets: u64,
    pending: Vec<(u64, Request)>,
    served: HashMap<u64, Reply>,
}

enum Request {
    Encode(Vec<(MaskedSeq, f64)>),
    Read(Vec<OwnedQuestion>),
    Score(Vec<View>),
}

enum Reply {
    Encodings(Result<Vec<Encoding>>),
    Answers(Result<Vec<Answer>>),
    Scores(Result<Vec<f64>>),
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
}

impl OwnedQuestion {
    fn new(question: &Question<'_>) -> Self {
        let Want { argmax, confidence, top, draws, logprobs } = question.want;
        Self {
            seq: question.seq.clone(),
            encoding: question.encoding.clone(),
            bans: question.bans.clone(),
            argmax,
            confidence,
            top: top.to_vec(),
            draws: draws.to_vec(),
            logprobs: logprobs.to_vec(),
        }
    }

    fn borrow(&self) -> Question<'_> {
        let want = Want {
            argmax: self.argmax,
            confidence: self.confidence,
            top: &self.top,
            draws: &self.draws,
            logprobs: &self.logprobs,
        };
        Question { seq: &self.seq, encoding: &self.encoding, bans: &self.bans, want }
    }
}

impl<'a> Table<'a> {
    fn new(denoiser: &'a dyn Denoiser, reward: &'a dyn Reward, seated: usize) -> Self {
        let desk = Mutex::new(Desk { seated, ..Desk::default() });
        Self { denoiser, reward, desk, changed: Condvar::new() }
    }

    /// Leaves a request, waits until it is served, and serves everybody if all are waiting.
    fn ask(&self, request: Request) -> Reply {
        let mut desk = lock(&self.desk);
        let ticket = desk.tickets;
        desk.tickets += 1;
        desk.pending.push((ticket, request));
        desk.waiting += 1;
        loop {
            if let Some(reply) = desk.served.remove(&ticket) {
                return reply;
            }
            if !desk.serving && desk.waiting == desk.seated {
                desk.serving = true;
                // The order of arrival depends on the scheduler; by row invariance no answer does.
                let pending = std::mem::take(&mut desk.pending);
                drop(desk);
                let replies = self.serve(pending);
                desk = lock(&self.desk);
                desk.waiting -= replies.len();
                desk.served.extend(replies);
                desk.serving = false;
                self.changed.notify_all();
            } else {
                desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    // A panic while serving would leave the others waiting for ever: the guards make it an error.
    fn serve(&self, pending: Vec<(u64, Request)>) -> Vec<(u64, Reply)> {
        let (mut states, mut questions, mut views) = (Vec::new(), Vec::new(), Vec::new());
        for (ticket, request) in pending {
            match request {
                Request::Encode(batch) => states.push((ticket, batch)),
                Request::Read(batch) => questions.push((ticket, batch)),
                Request::Score(batch) => views.push((ticket, batch)),
            }
        }
        let mut replies = merged(&states, |batch: &[&(MaskedSeq, f64)]| {
            let batch: Vec<_> = batch.iter().map(|(seq, t)| State { seq, t: *t }).collect();
            guard::denoiser(|| self.denoiser.encode(&batch))
        })
        .map_replies(Reply::Encodings);
        replies.extend(
            merged(&questions, |batch: &[&OwnedQuestion]| {
                let batch: Vec<_> = batch.iter().map(|question| question.borrow()).collect();
                guard::denoiser(|| self.denoiser.read(&batch))
            })
            .map_replies(Reply::Answers),
        );
        replies.extend(
            merged(&views, |batch: &[&View]| {
                guard::reward(self.reward, || self.reward.score(batch))
            })
            .map_replies(Reply::Scores),
        );
        replies
    }
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

trait MapReplies<O> {
    fn map_replies(self, wrap: impl Fn(Result<Vec<O>>) -> Reply) -> Vec<(u64, Reply)>;
}

impl<O> MapReplies<O> for Vec<(u64, Result<Vec<O>>)> {
    fn map_replies(self, wrap: impl Fn(Result<Vec<O>>) -> Reply) -> Vec<(u64, Reply)> {
        self.into_iter().map(|(ticket, result)| (ticket, wrap(result))).collect()
    }
}

impl Denoiser for Table<'_> {
    fn facts(&self) -> &Facts {
        self.denoiser.facts()
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let states = batch.iter().map(|state| (state.seq.clone(), state.t)).collect();
        match self.ask(Request::Encode(states)) {
            Reply::Encodings(result) => result,
            _ => unreachable!("a ticket gets the kind of reply it asked for"),
        }
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        match self.ask(Request::Read(batch.iter().map(OwnedQuestion::new).collect())) {
            Reply::Answers(result) => result,
            _ => unreachable!("a ticket gets the kind of reply it asked for"),
        }
    }
}

impl Reward for Table<'_> {
    fn name(&self) -> &str {
        self.reward.name()
    }

    fn view(&self, tokens: &[TokenId]) -> Result<View> {
        self.reward.view(tokens)
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        match self.ask(Request::Score(batch.iter().map(|&view| view.clone()).collect())) {
            Reply::Scores(result) => result,
            _ => unreachable!("a ticket gets the kind of reply it asked for"),
        }
    }
}
