//! What a client is told when it cannot have what it asked for: OpenAI's error object, with a hint.
//!
//! Guarantee: every refusal names what was expected and what came; the hint is the last paragraph of
//! the message, so that clients that show nothing but the message show it too.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use treasure::{Error, ErrorKind, Hint as _, is_known};

/// The result of anything a route does.
pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// A request that was not carried out.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    code: Option<&'static str>,
    message: String,
    hint: Option<String>,
    pub param: Option<String>,
    /// Headers beside the body, such as `Retry-After`.
    headers: Vec<(HeaderName, String)>,
}

impl Refusal {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let (code, hint, param) = (None, None, None);
        Self { status, code, message: message.into(), hint, param, headers: Vec::new() }
    }

    /// A field that cannot be what it is; the message begins with the field's name.
    pub fn field(param: impl Into<String>, message: impl std::fmt::Display) -> Self {
        let param = param.into();
        let name = param.strip_prefix("treasure.").unwrap_or(&param);
        let message = format!("{name}: {message}");
        Self { param: Some(param), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// A field of the wrong kind.
    pub fn expected(
        param: impl Into<String>,
        expected: impl std::fmt::Display,
        got: &Value,
    ) -> Self {
        Self::field(param, format_args!("expected {expected}, got {}", excerpt(got)))
    }

    pub fn too_busy(seconds: u64, waiting: usize) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, format!("queue: full, {waiting} searches wait"))
            .with_code("rate_limit_exceeded")
            .with_hint("try again later, or ask for fewer texts at a time")
            .retry_after(seconds)
    }

    pub fn draining() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is shutting down and takes no new work",
        )
        .with_code("draining")
        .retry_after(10)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.with_header(header::RETRY_AFTER, seconds.to_string())
    }

    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Puts the refusal beside a field.
    #[must_use]
    pub fn at(mut self, param: &str) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Puts the refusal beside a field, unless it stands beside one.
    #[must_use]
    pub fn beside(mut self, param: &str) -> Self {
        self.param.get_or_insert_with(|| param.into());
        self
    }

    /// The error of a request that could not become a plan, or whose start could not be made.
    /// `renamed` are options that came by another name, as `(option, field)`.
    pub fn of_request(error: &Error, renamed: &[(&str, &str)]) -> Self {
        let message = error.chain().join(": ");
        let refusal = Self::new(status_of(error), message);
        let refusal = match error.hint() {
            Some(hint) => refusal.with_hint(hint),
            None => refusal,
        };
        let param = param_of(&refusal.message, renamed);
        Self { param, ..refusal }
    }

    /// The error of a search that failed. `outside` says whether one of its rewards is another
    /// program's or another machine's.
    pub fn of_run(error: &Error, outside: bool) -> Self {
        let status = match error.kind() {
            ErrorKind::Request | ErrorKind::Constraint => status_of(error),
            ErrorKind::Reward if outside => StatusCode::BAD_GATEWAY,
            // What a request asked for and its own arithmetic could not give.
            ErrorKind::Reward | ErrorKind::Search | ErrorKind::Stopped => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            ErrorKind::Model | ErrorKind::Io => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let refusal = Self { status, ..Self::of_request(error, &[]) };
        match error.kind() {
            ErrorKind::Reward => refusal.beside("treasure.reward"),
            _ => refusal,
        }
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 | 403 => "authentication_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The body, as it stands in an answer or in a stream.
    pub fn to_value(&self) -> Value {
        let message = match &self.hint {
            Some(hint) => format!("{}\n\nhint: {hint}", self.message),
            None => self.message.clone(),
        };
        json!({"error": {
            "message": message,
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
            "hint": self.hint,
        }})
    }

    /// The message in one line, for the log: without what the client sent.
    pub fn line(&self) -> String {
        let line = self.message.lines().next().unwrap_or_default();
        let line = line.split_once(", got ").map_or(line, |(expected, _)| expected);
        line.chars().take(200).collect()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_value().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        for (name, value) in &self.headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name.clone(), value);
            }
        }
        // The log tells it with the request's id.
        response.extensions_mut().insert(self);
        response
    }
}

/// A request that makes no sense, or one that cannot be met.
fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Constraint => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// A value, short enough for a message.
pub(crate) fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The field that a message of the library begins with, by the name the client knows it by.
fn param_of(message: &str, renamed: &[(&str, &str)]) -> Option<String> {
    let name = message.split(':').next()?.trim().replace(' ', "_");
    if let Some((_, field)) = renamed.iter().find(|(option, _)| *option == name) {
        return Some((*field).to_owned());
    }
    if name == "prompt" || name == "model" {
        return Some(name);
    }
    let known = is_known(&name);
    // A name that nobody knows stands under the key where unknown names are refused.
    let unknown = message.contains("there is no such option");
    (known || unknown).then(|| format!("treasure.{name}"))
}
