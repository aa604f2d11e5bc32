//! Several servers that answer alike: least-loaded dispatch, retries with back-off.
//!
//! Results come back in the order of the texts, whichever server gave them.

use std::{
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use treasure_core::{lend, until};

use super::{
    address::Address,
    http::{Client, Reply, Trouble},
};
use crate::{Error, Interrupt, RemoteOptions, Result};

/// Pauses do not grow beyond this.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// A server may ask for a longer pause, up to this.
const LONGEST_ASKED_PAUSE: Duration = Duration::from_secs(30);
/// A server that let this many exchanges of one request time out is given up.
const TIMEOUTS: u32 = 2;
/// A server that never answered and broke off this many answers to one request is given up.
const CUTS: u32 = 2;

struct Server {
    address: Address,
    in_flight: AtomicUsize,
    /// Whether it ever answered: only then is a refused connection worth another try.
    answered: AtomicBool,
}

/// How a request failed.
pub(super) enum Failure {
    /// The server wants fewer texts at a time.
    TooManyTexts(Error),
    /// No such endpoint on the server.
    NotFound(Error),
    /// Anything else.
    Other(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TooManyTexts(error) | Failure::NotFound(error) | Failure::Other(error) => {
                error
            }
        }
    }
}

/// An answer with the address it came from.
pub(super) struct Answer {
    pub url: String,
    pub json: Value,
    pub server: Option<String>,
}

pub(super) struct Fleet {
    pub name: String,
    servers: Vec<Server>,
    client: Client,
    options: RemoteOptions,
    interrupt: Interrupt,
    batch: AtomicUsize,
    choosing: Mutex<()>,
    model: OnceLock<Option<Value>>,
}

impl Fleet {
    pub fn new(
        name: &str,
        urls: &[String],
        options: &RemoteOptions,
        interrupt: Interrupt,
    ) -> Result<Self> {
        if urls.is_empty() {
            return Err(Error::reward(name, "expected the address of a server, got none"));
        }
        let server = |url: &String| Server {
            address: Address::new(url),
            in_flight: AtomicUsize::new(0),
            answered: AtomicBool::new(false),
        };
        Ok(Self {
            name: name.into(),
            servers: urls.iter().map(server).collect(),
            client: Client::new(options, interrupt.clone()),
            interrupt,
            batch: AtomicUsize::new(options.batch.max(1)),
            choosing: Mutex::new(()),
            options: options.clone(),
            model: OnceLock::new(),
        })
    }

    /// The path of the first address.
    pub fn path(&self) -> &str {
        &self.servers[0].address.path
    }

    /// A setting in the query of the first address.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.servers[0].address.setting(key)
    }

    pub fn error(&self, url: &str, message: impl std::fmt::Display) -> Error {
        Error::reward(&self.name, format!("{url}: {message}"))
    }

    /// Never sends more than `size` texts at a time from now on.
    pub fn limit_batch(&self, size: usize) {
        self.batch.fetch_min(size.max(1), Ordering::Relaxed);
    }

    /// What a `GET` on the first server gives, if it gives JSON. For questions that may go unanswered.
    pub fn peek(&self, path: &str) -> Option<Value> {
        let url = self.servers[0].address.sibling(path);
        let reply = self.client.get(&url).ok().filter(|reply| reply.status == 200)?;
        self.servers[0].answered.store(true, Ordering::Relaxed);
        reply.json().ok()
    }

    /// The first entry of `GET /v1/models`, asked once.
    pub fn served_model(&self) -> Option<&Value> {
        self.model.get_or_init(|| self.peek("/v1/models")?.pointer("/data/0").cloned()).as_ref()
    }

    /// Adds the name of the model to a request: the one in the address, or the one the server names.
    pub fn with_model(&self, mut body: Value) -> Value {
        let named = self.setting("model").map(|name| json!(name));
        if let Some(model) = named.or_else(|| self.served_model()?.get("id").cloned()) {
            body["model"] = model;
        }
        body
    }

    /// Splits texts into requests, runs them at once on all servers and joins the rows in order.
    pub fn dispatch<Row: Send>(
        &self,
        texts: &[&str],
        ask: impl Fn(&[&str]) -> Result<Vec<Row>, Failure> + Sync,
    ) -> Result<Vec<Row>> {
        let chunks: Vec<&[&str]> = texts.chunks(self.batch.load(Ordering::Relaxed)).collect();
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let done: Mutex<Vec<Option<Result<Vec<Row>>>>> =
            Mutex::new(chunks.iter().map(|_| None).collect());
        let work = || {
            while !failed.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(chunk) = chunks.get(index) else { break };
                let rows = self.ask_in_parts(chunk, &ask);
                failed.fetch_or(rows.is_err(), Ordering::Relaxed);
                done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(rows);
            }
        };
        let workers =
            chunks.len().min(self.servers.len() * self.options.requests_per_server.max(1));
        if workers <= 1 {
            work();
        } else {
            // The threads work for the caller: when it waits no longer, they need not either.
            lend(|stopped| {
                std::thread::scope(|scope| {
                    for _ in 0..workers {
                        scope.spawn(|| until(stopped, work));
                    }
                });
            });
        }
        let mut rows = Vec::with_capacity(texts.len());
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Chunks are begun in order, so every chunk before the first error is there.
        for chunk in done.into_iter().flatten() {
            rows.extend(chunk?);
        }
        Ok(rows)
    }

    /// Asks about some texts; a server that finds them too many gets them in halves.
    fn ask_in_parts<Row>(
        &self,
        texts: &[&str],
        ask: &impl Fn(&[&str]) -> Result<Vec<Row>, Failure>,
    ) -> Result<Vec<Row>> {
        match ask(texts) {
            Ok(rows) if rows.len() == texts.len() => Ok(rows),
            Ok(rows) => Err(Error::reward(
                &self.name,
                format!("expected {} rows for {0} texts, got {}", texts.len(), rows.len()),
            )),
            Err(Failure::TooManyTexts(_)) if texts.len() > 1 => {
                let (left, right) = texts.split_at(texts.len().div_ceil(2));
                self.limit_batch(left.len());
                let mut rows = self.ask_in_parts(left, ask)?;
                rows.extend(self.ask_in_parts(right, ask)?);
                Ok(rows)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Posts to the least loaded server until one answers or there is no hope. `default` is the path
    /// where the user gave none.
    pub fn post(&self, default: &str, body: &Value) -> Result<Answer, Failure> {
        self.post_at(|address| address.endpoint(default), body)
    }

    /// Like [`post`](Self::post), with the address made by `endpoint`.
    pub fn post_at(
        &self,
        endpoint: impl Fn(&Address) -> String,
        body: &Value,
    ) -> Result<Answer, Failure> {
        // Tired servers have had their turn in this round; hopeless ones have had their last.
        let mut tired = vec![false; self.servers.len()];
        let mut hopeless = vec![false; self.servers.len()];
        let (mut timeouts, mut cuts) = (0, 0);
        let mut attempt = 0;
        loop {
            self.interrupt.check(&self.name).map_err(Failure::Other)?;
            attempt += 1;
            let index = self.take_least_loaded(&tired, &hopeless);
            let server = &self.servers[index];
            let url = endpoint(&server.address);
            let reply = self.client.post(&url, body);
            server.in_flight.fetch_sub(1, Ordering::Relaxed);
            tired[index] = true;
            if reply.is_ok() {
                server.answered.store(true, Ordering::Relaxed);
            }
            let (error, asked) = match reply {
                Ok(reply) if matches!(reply.status, 429 | 500..=599) => {
                    let message = format!("status {}: {}", reply.status, reply.excerpt());
                    (self.error(&url, message), reply.retry_after)
                }
                Ok(reply) => return self.settle(url, reply),
                Err(Trouble::Timeout) => {
                    timeouts += 1;
                    hopeless[index] = timeouts >= TIMEOUTS;
                    let message = format!("no answer within {:?}", self.options.timeout);
                    (self.error(&url, message), None)
                }
                Err(Trouble::Connection(message)) => {
                    hopeless[index] = !server.answered.load(Ordering::Relaxed);
                    let error = self.error(&url, format!("not reachable: {message}"));
                    (error.with_hint("is the server running, and is the address right?"), None)
                }
                Err(Trouble::Cut(message)) => {
                    cuts += 1;
                    hopeless[index] = cuts >= CUTS && !server.answered.load(Ordering::Relaxed);
                    let message = format!("the connection ended before the answer did: {message}");
                    (self.error(&url, message), None)
                }
                Err(Trouble::Interrupted) => {
                    return Err(Failure::Other(Error::Interrupted { name: self.name.clone() }));
                }
                Err(Trouble::Other(message)) => {
                    return Err(Failure::Other(self.error(&url, message)));
                }
            };
            if tired.iter().any(|tired| !tired) {
                continue;
            }
            if attempt >= self.options.attempts || hopeless.iter().all(|&hopeless| hopeless) {
                return Err(Failure::Other(self.gave_up(error, attempt)));
            }
            tired.copy_from_slice(&hopeless);
            self.interrupt.sleep(self.pause(attempt, asked));
        }
    }

    fn pause(&self, attempt: u32, asked: Option<Duration>) -> Duration {
        let doubled = self.options.first_pause.saturating_mul(1 << (attempt - 1).min(16));
        let own = doubled.min(LONGEST_PAUSE);
        asked.map_or(own, |asked| asked.min(LONGEST_ASKED_PAUSE).max(own))
    }

    fn gave_up(&self, error: Error, attempts: u32) -> Error {
        match error {
            Error::Reward { name, message, hint, source } if attempts > 1 => Error::Reward {
                name,
                message: format!("{message} (gave up after {attempts} tries)"),
                hint,
                source,
            },
            other => other,
        }
    }

    /// Takes the server with the fewest requests in flight, the first of equals, and counts one more.
    fn take_least_loaded(&self, tired: &[bool], hopeless: &[bool]) -> usize {
        // Choosing and counting are one step, or two threads would choose the same server.
        let _choosing = self.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let load = |&index: &usize| {
            (hopeless[index], tired[index], self.servers[index].in_flight.load(Ordering::Relaxed))
        };
        let index = (0..self.servers.len()).min_by_key(load).unwrap_or(0);
        self.servers[index].in_flight.fetch_add(1, Ordering::Relaxed);
        index
    }

    fn settle(&self, url: String, reply: Reply) -> Result<Answer, Failure> {
        let said = |what: &str| {
            self.error(&url, format!("{what} (status {}): {}", reply.status, reply.excerpt()))
        };
        match reply.status {
            200..=299 => match reply.json() {
                Ok(json) => Ok(Answer { url, json, server: reply.server }),
                Err(message) => Err(Failure::Other(self.error(&url, message))),
            },
            413 => Err(Failure::TooManyTexts(said("the request is too large"))),
            404 | 405 => Err(Failure::NotFound(said("no such endpoint"))),
            401 | 403 => Err(Failure::Other(
                said("not allowed").with_hint("set TREASURE_API_KEY to the server's key"),
            )),
            424 => Err(Failure::Other(said("the served model is not a classifier"))),
            300..=399 => Err(Failure::Other(
                said("the server redirects elsewhere, which is not followed")
                    .with_hint("give the final address"),
            )),
            _ => Err(Failure::Other(said("the request was refused"))),
        }
    }
}
