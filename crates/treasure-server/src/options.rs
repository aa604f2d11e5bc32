//! How a server is set up: plain data that a command line or a program fills in.

use std::{collections::BTreeMap, path::PathBuf};

use treasure::{Error, Request, Result};

use crate::chat::Chat;

/// A model that is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// The name clients know it by.
    pub id: String,
    /// What the operator says about it: `model`, `tokenizer`, `mask_id`, `dtype`, `precision`, `as`, `reward_dtype`, and
    /// the `seed` of requests that name none.
    pub base: Request,
    /// How messages become a prompt; without it chat is refused.
    pub chat: Option<Chat>,
}

impl Served {
    /// A model under its own name, or `ID=NAME`.
    pub fn new(written: &str) -> Self {
        let (id, name) = written.split_once('=').unwrap_or((written, written));
        let base = Request { model: Some(name.to_owned()), ..Request::default() };
        Self { id: id.to_owned(), base, chat: None }
    }
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The address to listen at.
    pub host: String,
    /// The port; 0 takes any that is free.
    pub port: u16,
    /// Listen beyond this machine without keys.
    pub open: bool,
    /// API keys, one a line, each perhaps after a name: `alice sk-…`. `#` begins a comment.
    pub api_key_file: Option<PathBuf>,
    /// What is served; the first is the default.
    pub models: Vec<Served>,
    /// Rewards beyond the shipped ones and the rules: `NAME=SPEC` makes a reward known as `own:NAME`;
    /// a specification, or its beginning up to a `/`, lets requests write it themselves.
    pub allow: Vec<String>,
    /// Origins whose pages may ask; `*` for any.
    pub cors: Vec<String>,
    /// Searches that may wait.
    pub max_queue: usize,
    /// Seconds a search may take, and may wait.
    pub max_seconds: f64,
    /// Bytes of a request's body.
    pub max_body: usize,
    /// Bytes of a prompt, of a suffix, of a template and of a text to score.
    pub max_prompt: usize,
    /// Seconds that a stream is silent at most: a comment keeps it open.
    pub silence_seconds: f64,
    /// The largest value of options, by name; only below `treasure::BOUNDS`. What is not named has a
    /// default that one machine can serve. `max_nfe` and `max_reward_calls` cap each search.
    pub limits: BTreeMap<String, u64>,
    /// Seconds that running searches have to finish once the server is told to stop.
    pub drain_seconds: f64,
    /// A folder with the page's files, for whoever works on them; else those in the binary.
    pub page: Option<PathBuf>,
    /// No log.
    pub quiet: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 8080,
            open: false,
            api_key_file: None,
            models: vec![Served::new("pocket")],
            allow: Vec::new(),
            cors: Vec::new(),
            max_queue: 256,
            max_seconds: 120.0,
            max_body: 1 << 20,
            max_prompt: 1 << 18,
            silence_seconds: 10.0,
            limits: BTreeMap::new(),
            drain_seconds: 30.0,
            page: None,
            quiet: false,
        }
    }
}

impl ServeOptions {
    /// Whether the address is this machine's own.
    pub(crate) fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    }

    /// Refuses what cannot be served, or not safely.
    pub(crate) fn check(&self) -> Result<()> {
        if self.models.is_empty() {
            return Err(Error::request("models: expected at least one, got none"));
        }
        for (at, model) in self.models.iter().enumerate() {
            if model.id.is_empty() || self.models[..at].iter().any(|other| other.id == model.id) {
                let message =
                    format!("models: expected names of their own, got {:?} again", model.id);
                return Err(Error::request(message).with_hint("name a model as ID=DIRECTORY"));
            }
        }
        for (name, seconds) in [
            ("max_seconds", self.max_seconds),
            ("drain_seconds", self.drain_seconds),
            ("silence_seconds", self.silence_seconds),
        ] {
            if !(seconds > 0.0 && seconds <= 31_536_000.0) {
                let message =
                    format!("{name}: expected more than 0 and at most a year, got {seconds}");
                return Err(Error::request(message));
            }
        }
        if !self.is_loopback() && self.api_key_file.is_none() && !self.open {
            return Err(Error::request(format!(
                "host: expected keys for an address beyond this machine, got none for {}",
                self.host
            ))
            .with_hint("name a file of keys, or say that it is open to all"));
        }
        Ok(())
    }
}
