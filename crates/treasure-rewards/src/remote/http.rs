//! One HTTP exchange: JSON out, JSON back, bounded in time and size.

use std::{io, time::Duration};

use serde_json::Value;

use crate::error::quoted;

/// How servers are treated.
#[derive(Clone)]
pub struct RemoteOptions {
    /// How long one exchange may take.
    pub timeout: Duration,
    /// How often an exchange is tried while the server is overloaded or failing.
    pub attempts: u32,
    /// The pause before the second try; it doubles from try to try, up to 8 seconds.
    pub first_pause: Duration,
    /// The largest answer that is read.
    pub max_answer_bytes: u64,
    /// How many texts go into one request, unless the server asks for fewer.
    pub batch: usize,
    /// How many requests one server gets at a time.
    pub requests_per_server: usize,
    /// Sent as a bearer token to every address the user named.
    pub api_key: Option<String>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            attempts: 5,
            first_pause: Duration::from_millis(250),
            max_answer_bytes: 64 << 20,
            batch: 32,
            requests_per_server: 2,
            api_key: None,
        }
    }
}

impl RemoteOptions {
    /// The defaults, with the bearer token in `TREASURE_API_KEY` if there is one.
    pub fn from_env() -> Self {
        let key = std::env::var("TREASURE_API_KEY").ok().filter(|key| !key.is_empty());
        Self { api_key: key, ..Self::default() }
    }
}

impl std::fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("timeout", &self.timeout)
            .field("attempts", &self.attempts)
            .field("batch", &self.batch)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

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
    /// No connection, or it broke.
    Connection(String),
    /// Something that trying again does not change.
    Other(String),
}

pub(super) struct Client {
    agent: ureq::Agent,
    max_answer_bytes: u64,
    authorization: Option<String>,
}

impl Client {
    pub fn new(options: &RemoteOptions) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            // A redirect or a proxy would send the texts to an address the user did not name.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("treasure/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.into(),
            max_answer_bytes: options.max_answer_bytes,
            authorization: options.api_key.as_ref().map(|key| format!("Bearer {key}")),
        }
    }

    pub fn get(&self, url: &str) -> Result<Reply, Trouble> {
        let mut request = self.agent.get(url);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        self.read(request.call())
    }

    pub fn post(&self, url: &str, body: &Value) -> Result<Reply, Trouble> {
        let mut request = self.agent.post(url).header("content-type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        self.read(request.send(body.to_string().as_bytes()))
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
        match response.body_mut().with_config().limit(limit).read_to_vec() {
            Ok(body) => Ok(Reply {
                status,
                retry_after: retry_after.map(Duration::from_secs),
                server,
                body,
            }),
            Err(ureq::Error::BodyExceedsLimit(_)) => {
                Err(Trouble::Other(format!("the answer is larger than {limit} bytes")))
            }
            Err(error) => Err(trouble(error)),
        }
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
        ureq::Error::Io(error) => Trouble::Connection(error.to_string()),
        ureq::Error::HostNotFound => Trouble::Connection("no such host".into()),
        ureq::Error::ConnectionFailed => Trouble::Connection("connection failed".into()),
        other => Trouble::Other(other.to_string()),
    }
}
