//! One HTTP exchange: JSON out, JSON back, bounded in time and size.
//!
//! Guarantee: what is read, counted after decoding, never exceeds the limit; and a caller that raises its
//! [`Interrupt`] waits no longer, whatever the server does.

use std::{
    io::{self, Read as _},
    sync::mpsc::{RecvTimeoutError, sync_channel},
    time::Duration,
};

use serde_json::Value;

use crate::{Interrupt, RemoteOptions, error::quoted, interrupt::LOOK};

/// Values in an answer, since a parsed one takes many times its two bytes.
const MOST_VALUES: usize = 2_000_000;

/// What came back.
pub(super) struct Reply {
    pub status: u16,
    /// The pause the server asks for before the next try.
    pub retry_after: Option<Duration>,
    /// What the server calls itself.
    pub server: Option<String>,
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON, or what is wrong with it.
    pub fn json(&self) -> Result<Value, String> {
        let values = self.body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
        if values > MOST_VALUES {
            return Err(format!("the answer has more than {MOST_VALUES} values"));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| format!("the answer is not JSON ({error}): {}", self.excerpt()))
    }

    /// The beginning of the body, for a message.
    pub fn excerpt(&self) -> String {
        quoted(String::from_utf8_lossy(&self.body).trim())
    }
}

/// Why nothing came back.
pub(super) enum Trouble {
    /// It took too long.
    Timeout,
    /// No connection.
    Connection(String),
    /// The connection ended before the answer did.
    Cut(String),
    /// The caller does not want to wait.
    Interrupted,
    /// Something that trying again does not change.
    Other(String),
}

#[derive(Clone)]
pub(super) struct Client {
    agent: ureq::Agent,
    max_answer_bytes: u64,
    authorization: Option<String>,
    interrupt: Interrupt,
}

impl Client {
    pub fn new(options: &RemoteOptions, interrupt: Interrupt) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            // A redirect or a proxy would send the texts to an address the user did not name.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .accept_encoding("identity")
            .user_agent(concat!("treasure/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.into(),
            max_answer_bytes: options.max_answer_bytes,
            authorization: options.api_key.as_ref().map(|key| format!("Bearer {key}")),
            interrupt,
        }
    }

    pub fn get(&self, url: &str) -> Result<Reply, Trouble> {
        let url = url.to_string();
        self.exchange(move |client| client.read(client.authorized(client.agent.get(url)).call()))
    }

    pub fn post(&self, url: &str, body: &Value) -> Result<Reply, Trouble> {
        let (url, body) = (url.to_string(), body.to_string());
        self.exchange(move |client| {
            let request = client.authorized(client.agent.post(url));
            let request = request.header("content-type", "application/json");
            client.read(request.send(body.as_bytes()))
        })
    }

    fn authorized<Body>(&self, request: ureq::RequestBuilder<Body>) -> ureq::RequestBuilder<Body> {
        match &self.authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        }
    }

    /// Talks to the server, in a thread that can be left alone when the interrupt is raised. What is left
    /// alone ends at its own time limit.
    fn exchange(
        &self,
        talk: impl FnOnce(&Self) -> Result<Reply, Trouble> + Send + 'static,
    ) -> Result<Reply, Trouble> {
        let (sender, reply) = sync_channel(1);
        let client = self.clone();
        std::thread::spawn(move || sender.send(talk(&client)));
        loop {
            if self.interrupt.is_raised() {
                return Err(Trouble::Interrupted);
            }
            match reply.recv_timeout(LOOK) {
                Ok(reply) => return reply,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Trouble::Other("the exchange broke off".into()));
                }
            }
        }
    }

    fn read(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Reply, Trouble> {
        let mut response = response.map_err(trouble)?;
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_string());
        let retry_after = header("retry-after").and_then(|text| text.parse().ok());
        let server = header("server");
        let status = response.status().as_u16();
        let limit = self.max_answer_bytes;
        let mut body = Vec::new();
        // Behind the decoder: a compressed answer may be a thousand times larger than what is sent.
        let mut reader = response.body_mut().as_reader().take(limit.saturating_add(1));
        reader.read_to_end(&mut body).map_err(|error| trouble(error.into()))?;
        if body.len() as u64 > limit {
            return Err(Trouble::Other(format!("the answer is larger than {limit} bytes")));
        }
        let retry_after = retry_after.map(Duration::from_secs);
        Ok(Reply { status, retry_after, server, body })
    }
}

fn trouble(error: ureq::Error) -> Trouble {
    match error {
        ureq::Error::Timeout(_) => Trouble::Timeout,
        ureq::Error::Io(error)
            if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) =>
        {
            Trouble::Timeout
        }
        ureq::Error::Io(error)
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
            ) =>
        {
            Trouble::Cut(error.to_string())
        }
        ureq::Error::Io(error) => Trouble::Connection(error.to_string()),
        ureq::Error::HostNotFound => Trouble::Connection("no such host".into()),
        ureq::Error::ConnectionFailed => Trouble::Connection("connection failed".into()),
        other => Trouble::Other(other.to_string()),
    }
}
