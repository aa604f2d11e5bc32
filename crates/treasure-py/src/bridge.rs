//! What a search asks of the Python thread that started it: scores of texts, logits of states, answers about
//! them.
//!
//! Guarantee: a request whose run is gone gets an error, never a wait without end.

use std::{
    hint,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender, TryRecvError},
    },
    time::{Duration, Instant},
};

use treasure::{
    core::{Answer, TokenId},
    rewards::{Error, Result, TextReward},
};

/// How Python answers: with a value, or with words about what went wrong.
pub(crate) type Reply<T> = Sender<std::result::Result<T, String>>;

/// The states of a batch, flat.
#[derive(Default)]
pub(crate) struct States {
    /// The length of each.
    pub lengths: Vec<usize>,
    /// The ids of all, the mask id where masked.
    pub ids: Vec<i64>,
    /// How many masks each has.
    pub masks: Vec<usize>,
    /// The masked positions of all.
    pub positions: Vec<i64>,
    /// The diffusion time of each.
    pub times: Vec<f64>,
}

/// A question about an encoded state; rows count its masks.
pub(crate) struct Ask {
    /// What Python called the state's encoding.
    pub handle: u64,
    /// Banned in every row.
    pub everywhere: Vec<TokenId>,
    /// Banned in the first rows, so many.
    pub before: Vec<(TokenId, usize)>,
    /// Whether the likeliest tokens are wanted.
    pub argmax: bool,
    /// Whether their log-probabilities are.
    pub confidence: bool,
    /// Row and number of likeliest tokens.
    pub top: Vec<(usize, usize)>,
    /// Row and uniform number.
    pub draws: Vec<(usize, f64)>,
    /// Row and token.
    pub logprobs: Vec<(usize, TokenId)>,
    /// Rows that are wanted whole, for constraints.
    pub rows: Vec<usize>,
}

/// How long a thread looks out for what comes at any moment, before it sleeps.
///
/// To wake a thread whose processor sleeps takes some 50 µs, as long as a simple reward takes for a batch.
const AT_ONCE: Duration = Duration::from_micros(200);

/// What comes at once, if anything does.
pub(crate) fn at_once<T>(from: &Receiver<T>) -> Option<T> {
    let begin = Instant::now();
    while begin.elapsed() < AT_ONCE {
        match from.try_recv() {
            Ok(got) => return Some(got),
            Err(TryRecvError::Empty) => hint::spin_loop(),
            Err(TryRecvError::Disconnected) => break,
        }
    }
    None
}

/// What a search says to Python.
pub(crate) enum Message {
    /// Score texts with a reward, by number.
    Score { reward: usize, texts: Vec<String>, reply: Reply<Vec<f64>> },
    /// Logits of states: for each the rows of its masks, as f64.
    Logits { states: States, reply: Reply<Vec<Vec<Vec<f64>>>> },
    /// Run states through the model: a handle and a size in bytes for each.
    Encode { states: States, dropped: Vec<u64>, reply: Reply<Vec<(u64, usize)>> },
    /// Answer questions about encoded states.
    Read { asks: Vec<Ask>, dropped: Vec<u64>, reply: Reply<Vec<Answer>> },
    /// The text of a search at a step, as JSON.
    Frame { job: usize, frame: String },
    /// A step of a search.
    Step { job: usize, step: usize, steps: usize, best: Option<f64> },
    /// Something is finished: a row as JSON, with its tree and trace if asked for.
    Done { job: usize, row: String, tree: Option<String>, trace: Option<Vec<u8>> },
    /// Something failed.
    Failed { job: usize, error: treasure::Error },
    /// Nothing more comes.
    End,
}

/// The way to the Python thread.
#[derive(Clone)]
pub(crate) struct Bridge {
    sender: Sender<Option<Message>>,
    /// Whether processors are free while a search waits for Python: it runs alone, on one of several.
    alone: bool,
    dropped: Arc<Mutex<Vec<u64>>>,
}

impl Bridge {
    pub(crate) fn new(alone: bool) -> (Self, Receiver<Option<Message>>) {
        let (sender, receiver) = mpsc::channel();
        (Self { sender, alone, dropped: Arc::default() }, receiver)
    }

    /// Says something; whether anybody listens is none of the search's business.
    pub(crate) fn tell(&self, message: Message) {
        let _ = self.sender.send(Some(message));
    }

    /// Says that a request comes at once: nothing, but whoever waits is awake by then.
    fn tell_soon(&self) {
        let _ = self.sender.send(None);
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask<T>(
        &self,
        message: impl FnOnce(Reply<T>) -> Message,
    ) -> std::result::Result<T, String> {
        let (reply, answer) = mpsc::channel();
        let gone = || "the caller has gone away".to_owned();
        self.sender.send(Some(message(reply))).map_err(|_| gone())?;
        let soon = if self.alone { at_once(&answer) } else { None };
        soon.map_or_else(|| answer.recv(), Ok).unwrap_or_else(|_| Err(gone()))
    }

    /// Notes that an encoding is needed no more; Python hears of it with the next request.
    pub(crate) fn drop_encoding(&self, handle: u64) {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    /// The encodings dropped since the last call.
    pub(crate) fn take_dropped(&self) -> Vec<u64> {
        std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A Python callable as a reward.
pub(crate) struct Callable {
    pub name: String,
    pub number: usize,
    pub batch: usize,
    pub bridge: Bridge,
    /// When Python was last told that texts come.
    pub told: Mutex<Option<Instant>>,
}

impl TextReward for Callable {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        let ask = |reply| Message::Score { reward: self.number, texts, reply };
        self.bridge.ask(ask).map_err(|message| Error::reward(format!("own:{}", self.name), message))
    }

    /// Python wakes while the search still writes the batch down.
    fn prepare(&self) {
        if self.bridge.alone {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.is_none_or(|told| told.elapsed() > AT_ONCE) {
                *told = Some(Instant::now());
                self.bridge.tell_soon();
            }
        }
    }

    fn batch_size(&self) -> Option<usize> {
        Some(self.batch)
    }
}
