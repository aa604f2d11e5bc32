//! What happens around every request: its id, its key, its time, its line in the log.

use std::{
    hash::{BuildHasher as _, RandomState},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use serde_json::json;

use crate::{
    app::App,
    origin,
    refusal::{Refusal, Result},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What proxies call a request whose client left.
const LEFT: u16 = 499;

/// The id of a request: its client's, or one of ours.
#[derive(Clone)]
pub(crate) struct RequestId(pub String);

/// Who asks: a key, or else an address.
#[derive(Clone, Default)]
pub(crate) struct Client {
    /// Whose turns in the queue it takes.
    pub lane: String,
    key: Option<String>,
}

/// Where a connection comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub IpAddr);

fn fresh_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}{:08x}", RandomState::new().hash_one(count), count as u32)
}

fn id_of(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let sane = |id: &&str| {
        !id.is_empty()
            && id.len() <= 64
            && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    given.filter(sane).map_or_else(fresh_id, str::to_owned)
}

/// What becomes of a request: counted and written once, as 499 where the client left before its answer.
struct Line {
    app: Arc<App>,
    began: Instant,
    id: String,
    route: String,
    method: Method,
    path: String,
    key: Option<String>,
    status: u16,
    error: Option<String>,
    param: Option<String>,
}

impl Drop for Line {
    fn drop(&mut self) {
        let seconds = self.began.elapsed().as_secs_f64();
        self.app.metrics.answered(&self.route, self.method.as_str(), self.status, seconds);
        // Those who look every few seconds would fill the log.
        if matches!(self.route.as_str(), "/health" | "/ready" | "/metrics") {
            return;
        }
        self.app.log.say(
            "request",
            json!({
                "id": self.id,
                "method": self.method.as_str(),
                "path": self.path.chars().take(200).collect::<String>(),
                "status": self.status,
                "seconds": (seconds * 1e6).round() / 1e6,
                "key": self.key,
                "error": self.error,
                "param": self.param,
            }),
        );
    }
}

/// Gives a request its id and its client, counts it, and writes its line.
pub(crate) async fn around(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
    let mut line = Line {
        began: Instant::now(),
        id: id_of(request.headers()),
        route: route.to_owned(),
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        key: None,
        status: LEFT,
        error: None,
        param: None,
        app: app.clone(),
    };
    let mut response = match admit(&app, &line.route, &request) {
        Ok(client) => {
            line.key.clone_from(&client.key);
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(RequestId(line.id.clone()));
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    line.status = response.status().as_u16();
    if let Some(refused) = response.extensions().get::<Refusal>() {
        line.error = Some(refused.line());
        line.param.clone_from(&refused.param);
    }
    if let Ok(id) = HeaderValue::from_str(&line.id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The client of a request, if it may ask at all.
fn admit(app: &App, route: &str, request: &Request) -> Result<Client> {
    let guarded = route.starts_with("/v1/") || route == "/metrics";
    let peer = request.extensions().get::<Peer>();
    let lane = peer.map_or_else(String::new, |Peer(ip)| ip.to_string());
    match &app.keys {
        _ if !guarded => Ok(Client { lane, key: None }),
        None => {
            if app.options.is_loopback() && !app.options.open {
                origin::check(request.headers(), &app.options.host, &app.options.cors)?;
            }
            Ok(Client { lane, key: None })
        }
        Some(keys) => {
            let header = request.headers().get(header::AUTHORIZATION);
            let given = header.and_then(|value| value.to_str().ok()?.split_once(' '));
            let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            match given.and_then(|(_, key)| keys.name(key.trim())) {
                Some(name) => {
                    Ok(Client { lane: format!("key {name}"), key: Some(name.to_owned()) })
                }
                None => {
                    let got = if header.is_some() { "another" } else { "none" };
                    let message = format!("api key: expected a known key, got {got}");
                    Err(Refusal::new(StatusCode::UNAUTHORIZED, message)
                        .with_code("invalid_api_key")
                        .with_hint("send it as `Authorization: Bearer KEY`"))
                }
            }
        }
    }
}
