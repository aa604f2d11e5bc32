//! A request's body, within a size and a time.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{StatusCode, header},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::{
    app::App,
    refusal::{Refusal, Result},
};

/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is read of a body that is too large, so that its sender hears why: in bytes and in time.
const HEARING: (usize, Duration) = (64 << 20, Duration::from_secs(5));

/// The whole body.
pub(crate) async fn read(app: &Arc<App>, request: Request) -> Result<Bytes> {
    let most = app.options.max_body;
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length: Option<usize> = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let body = request.into_body();
    if length.is_some_and(|length| length > most) {
        return Err(too_large(most, length, body).await);
    }
    let mut limited = Limited::new(body, most);
    let mut whole = Vec::with_capacity(length.unwrap_or(0).min(most));
    let gathered = tokio::time::timeout(PATIENCE, async {
        while let Some(frame) = limited.frame().await {
            if let Ok(data) = frame?.into_data() {
                whole.extend_from_slice(&data);
            }
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    });
    match gathered.await {
        Ok(Ok(())) => Ok(whole.into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(too_large(most, None, Body::empty()).await)
        }
        Ok(Err(error)) => {
            Err(Refusal::field("body", format_args!("expected all of it, got a part: {error}")))
        }
        Err(_) => {
            let message = format!("body: expected all of it within {} s", PATIENCE.as_secs());
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

async fn too_large(most: usize, got: Option<usize>, rest: Body) -> Refusal {
    let (bytes, time) = HEARING;
    let mut rest = Limited::new(rest, bytes);
    let _ =
        tokio::time::timeout(time, async { while let Some(Ok(_)) = rest.frame().await {} }).await;
    let got = got.map_or_else(|| "more".to_owned(), |got| got.to_string());
    let message = format!("body: expected at most {most} bytes, got {got}");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message).with_hint("send less in one request")
}
