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
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
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

/// Gives a request its id and its client, counts it, and writes its line.
pub(crate) async fn around(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = id_of(request.headers());
    let route =
        request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut key = None;
    let mut response = match admit(&app, &route, &request) {
        Ok(client) => {
            key.clone_from(&client.key);
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(RequestId(id.clone()));
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    let seconds = began.elapsed().as_secs_f64();
    let status = response.status().as_u16();
    app.metrics.answered(&route, method.as_str(), status, seconds);
    let refused = response.extensions().get::<Refusal>();
    app.log.say(
        "request",
        json!({
            "id": id,
            "method": method.as_str(),
            "path": path.chars().take(200).collect::<String>(),
            "status": status,
            "seconds": (seconds * 1e6).round() / 1e6,
            "key": key,
            "error": refused.map(Refusal::line),
            "param": refused.and_then(|refusal| refusal.param.clone()),
        }),
    );
    if let Ok(id) = HeaderValue::from_str(&id) {
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
