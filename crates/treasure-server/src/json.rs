//! A JSON value as a response.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;

/// An answer in JSON.
pub(crate) struct Json(pub Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        let mut response = self.0.to_string().into_response();
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
