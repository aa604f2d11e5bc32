//! Calls into a router, as a client would make them.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;
use treasure_server::{App, router};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The answer, which must be one.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// The refusal: status, message, and the field it stands beside.
    pub fn refusal(&self) -> (u16, String, Value) {
        let error = &self.json()["error"];
        for field in ["message", "type"] {
            assert!(error[field].is_string(), "{error}");
        }
        let message = error["message"].as_str().unwrap().to_owned();
        (self.status.as_u16(), message, error["param"].clone())
    }

    /// The data of every server-sent event.
    pub fn events(&self) -> Vec<String> {
        let text = self.text();
        let blocks =
            text.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':'));
        blocks.map(|block| block.strip_prefix("data: ").unwrap().to_owned()).collect()
    }

    /// The chunks of a stream that ended well.
    pub fn chunks(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.text());
        let mut events = self.events();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{}", self.text());
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

pub async fn send(routes: &Router, request: Request<Body>) -> Answer {
    let response = routes.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answer { status: parts.status, headers: parts.headers, body }
}

pub async fn get(app: &Arc<App>, path: &str) -> Answer {
    send(&router(app.clone()), Request::get(path).body(Body::empty()).unwrap()).await
}

pub async fn post(app: &Arc<App>, path: &str, body: Value) -> Answer {
    send(&router(app.clone()), Request::post(path).body(Body::from(body.to_string())).unwrap())
        .await
}

pub async fn complete(app: &Arc<App>, body: Value) -> Answer {
    post(app, "/v1/completions", body).await
}
