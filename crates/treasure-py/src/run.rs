//! Work under way, as Python drives it: messages out, answers in.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use pyo3::{
    prelude::*,
    types::{PyBytes, PyTuple},
};
use treasure::core::{Answer, Candidate};

use crate::{
    bridge::{Ask, Message, Reply, States, at_once},
    errors,
};

/// How often a waiting thread looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Who waits for an answer.
enum Pending {
    Scores(Reply<Vec<f64>>),
    Logits(Reply<Vec<Vec<Vec<f64>>>>, Vec<usize>),
    Encoded(Reply<Vec<(u64, usize)>>),
    Answers(Reply<Vec<Answer>>),
}

/// An answer as Python writes it: argmax, confidence, top lists (ids, log-probabilities), draws,
/// log-probabilities, whole rows as f32 in native order.
type Written<'py> =
    (Vec<u32>, Vec<f64>, Vec<(Vec<u32>, Vec<f64>)>, Vec<u32>, Vec<f64>, Vec<Bound<'py, PyBytes>>);

/// Work under way. Dropping it stops the work.
#[pyclass(frozen, module = "treasure._treasure")]
pub struct Run {
    receiver: Mutex<Receiver<Option<Message>>>,
    cancel: Arc<AtomicBool>,
    waiting: Mutex<(u64, HashMap<u64, Pending>)>,
}

impl Run {
    pub(crate) fn new(receiver: Receiver<Option<Message>>, cancel: Arc<AtomicBool>) -> Self {
        Self { receiver: Mutex::new(receiver), cancel, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, (u64, HashMap<u64, Pending>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ticket(&self, pending: Pending) -> u64 {
        let mut waiting = self.waiting();
        waiting.0 += 1;
        let ticket = waiting.0;
        waiting.1.insert(ticket, pending);
        ticket
    }

    fn take(&self, py: Python<'_>, ticket: u64) -> PyResult<Pending> {
        let found = self.waiting().1.remove(&ticket);
        found.ok_or_else(|| errors::request(py, format!("ticket {ticket}: nobody waits for it")))
    }

    fn hand<'py>(&self, py: Python<'py>, message: Message) -> PyResult<Bound<'py, PyTuple>> {
        match message {
            Message::Score { reward, texts, reply } => {
                let ticket = self.ticket(Pending::Scores(reply));
                ("score", ticket, reward, texts).into_pyobject(py)
            }
            Message::Logits { states, reply } => {
                let ticket = self.ticket(Pending::Logits(reply, states.masks.clone()));
                ("logits", ticket, written(py, &states)?).into_pyobject(py)
            }
            Message::Encode { states, dropped, reply } => {
                let ticket = self.ticket(Pending::Encoded(reply));
                ("encode", ticket, written(py, &states)?, dropped).into_pyobject(py)
            }
            Message::Read { asks, dropped, reply } => {
                let ticket = self.ticket(Pending::Answers(reply));
                let asks: Vec<_> = asks.into_iter().map(asked).collect();
                ("read", ticket, asks, dropped).into_pyobject(py)
            }
            Message::Frame { job, frame } => ("frame", job, frame).into_pyobject(py),
            Message::Step { job, step, steps, best } => {
                ("step", job, step, steps, best).into_pyobject(py)
            }
            Message::Done { job, row, tree, trace } => {
                let trace = trace.map(|trace| PyBytes::new(py, &trace));
                ("done", job, row, tree, trace).into_pyobject(py)
            }
            Message::Failed { job, error } => {
                ("failed", job, errors::raise(py, &error).into_value(py), error.is_interrupted())
                    .into_pyobject(py)
            }
            Message::End => ("end",).into_pyobject(py),
        }
    }
}

#[pymethods]
impl Run {
    /// The next message; waits without the interpreter's lock and lets Ctrl-C through.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        loop {
            let got = py.detach(|| {
                let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
                match receiver.recv_timeout(LOOK) {
                    Ok(None) => Ok(at_once(&receiver).flatten()),
                    got => got,
                }
            });
            match got {
                Ok(None) => {}
                Ok(Some(message)) => return self.hand(py, message),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return self.hand(py, Message::End),
            }
        }
    }

    /// Stops the work within a step; what is there already is kept.
    fn cancel(&self) {
        self.cancel.store(true, Ordering::SeqCst);
    }

    /// Answers a request with the words of a failure.
    fn fail(&self, py: Python<'_>, ticket: u64, message: String) -> PyResult<()> {
        match self.take(py, ticket)? {
            Pending::Scores(reply) => drop(reply.send(Err(message))),
            Pending::Logits(reply, _) => drop(reply.send(Err(message))),
            Pending::Encoded(reply) => drop(reply.send(Err(message))),
            Pending::Answers(reply) => drop(reply.send(Err(message))),
        }
        Ok(())
    }

    /// Answers a request for scores.
    fn scores(&self, py: Python<'_>, ticket: u64, scores: Vec<f64>) -> PyResult<()> {
        if let Pending::Scores(reply) = self.take(py, ticket)? {
            let _ = reply.send(Ok(scores));
        }
        Ok(())
    }

    /// Answers a request for logits: for each state the rows of its masks, f64 in native order.
    fn logits(&self, py: Python<'_>, ticket: u64, rows: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let Pending::Logits(reply, masks) = self.take(py, ticket)? else { return Ok(()) };
        let mut all = Vec::with_capacity(rows.len());
        for (bytes, masks) in rows.iter().zip(masks) {
            let float = |eight: &[u8]| eight.try_into().map_or(f64::NAN, f64::from_ne_bytes);
            let numbers: Vec<f64> = bytes.as_bytes().chunks_exact(8).map(float).collect();
            let width = numbers.len() / masks.max(1);
            all.push(match width {
                0 => Vec::new(),
                width => numbers.chunks(width).map(<[f64]>::to_vec).collect(),
            });
        }
        let _ = reply.send(Ok(all));
        Ok(())
    }

    /// Answers a request to encode: a handle and a size in bytes for each state.
    fn encoded(&self, py: Python<'_>, ticket: u64, handles: Vec<(u64, usize)>) -> PyResult<()> {
        if let Pending::Encoded(reply) = self.take(py, ticket)? {
            let _ = reply.send(Ok(handles));
        }
        Ok(())
    }

    /// Answers questions.
    fn answers(&self, py: Python<'_>, ticket: u64, answers: Vec<Written<'_>>) -> PyResult<()> {
        let Pending::Answers(reply) = self.take(py, ticket)? else { return Ok(()) };
        let read = |(argmax, confidence, top, draws, logprobs, rows): Written<'_>| Answer {
            argmax,
            confidence,
            top: (top.into_iter())
                .map(|(ids, logprobs)| {
                    let pairs = ids.into_iter().zip(logprobs);
                    pairs.map(|(token, logprob)| Candidate { token, logprob }).collect()
                })
                .collect(),
            draws,
            logprobs,
            rows: rows.iter().map(|row| floats(row.as_bytes())).collect(),
            ..Answer::default()
        };
        let _ = reply.send(Ok(answers.into_iter().map(read).collect()));
        Ok(())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::SeqCst);
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let float = |four: &[u8]| four.try_into().map_or(f32::NAN, f32::from_ne_bytes);
    bytes.chunks_exact(4).map(float).collect()
}

/// Lengths, ids, numbers of masks, masked positions, times; ids and positions as int64 in native order.
type WrittenStates<'py> =
    (Vec<usize>, Bound<'py, PyBytes>, Vec<usize>, Bound<'py, PyBytes>, Vec<f64>);

fn written<'py>(py: Python<'py>, states: &States) -> PyResult<WrittenStates<'py>> {
    let bytes = |numbers: &[i64]| {
        let flat: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        PyBytes::new(py, &flat)
    };
    Ok((
        states.lengths.clone(),
        bytes(&states.ids),
        states.masks.clone(),
        bytes(&states.positions),
        states.times.clone(),
    ))
}

/// A question as Python reads it.
type WrittenAsk = (
    u64,
    (Vec<u32>, Vec<(u32, usize)>),
    (bool, bool),
    Vec<(usize, usize)>,
    Vec<(usize, f64)>,
    Vec<(usize, u32)>,
    Vec<usize>,
);

fn asked(ask: Ask) -> WrittenAsk {
    (
        ask.handle,
        (ask.everywhere, ask.before),
        (ask.argmax, ask.confidence),
        ask.top,
        ask.draws,
        ask.logprobs,
        ask.rows,
    )
}
