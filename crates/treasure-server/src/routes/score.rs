//! Texts and a reward → numbers.

use std::sync::{Arc, atomic::Ordering};

use axum::{
    Extension,
    extract::{Request, State},
};
use serde_json::{Value, json};
use treasure::rewards::Spec;

use crate::{
    app::App,
    ask::PROMPT,
    body,
    fields::Fields,
    json::Json,
    policy::Policy,
    pool::{Refused, Work},
    refusal::{Refusal, Result},
    watch::Client,
};

/// Texts that a request may score.
const TEXTS: usize = 1_024;
/// Texts that are scored between looks at whether the client is still there.
const PORTION: usize = 32;

pub(crate) async fn score(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Json> {
    app.check_open()?;
    let body = body::read(&app, request).await?;
    let mut fields = Fields::parse(&body)?;
    let Some(texts) = fields.texts("input", TEXTS)? else {
        return Err(Refusal::expected("input", "a text or a list of texts", &Value::Null));
    };
    if let Some(long) = texts.iter().find(|text| text.len() > PROMPT) {
        let message = format!("expected texts of at most {PROMPT} bytes, got {}", long.len());
        return Err(Refusal::field("input", message));
    }
    let Some(reward) = fields.text("reward")? else {
        return Err(Refusal::expected("reward", "a reward", &Value::Null)
            .with_hint("GET /v1/rewards lists what there is"));
    };
    fields.value("model");
    fields.value("user");
    if let Some(name) = fields.rest().keys().next() {
        let refusal = Refusal::field(name, "there is no such field");
        return Err(match treasure::nearest(name, ["input", "reward"]) {
            Some(near) => refusal.with_hint(format!("did you mean {near}?")),
            None => refusal.with_hint("fields: input, reward"),
        });
    }
    let spec: Spec = reward.parse().map_err(|error| {
        Refusal::of_request(&treasure::Error::from(error), &[("reward", "reward")])
    })?;
    app.policy().check(&spec, "reward")?;
    let outside = Policy::is_outside(&spec);

    let ticket = app.pool.ticket();
    let (tell, told) = tokio::sync::oneshot::channel();
    let (cancel, session) = (ticket.cancel(), app.session.clone());
    let work: Work = Box::new(move || {
        // A reward that cannot be built is the request's affair, one that fails is its own.
        if let Err(error) = session.score(&reward, &[]) {
            return drop(tell.send(Err(Refusal::of_request(&error, &[]).at("reward"))));
        }
        let mut rows = Vec::with_capacity(texts.len());
        for portion in texts.chunks(PORTION) {
            if cancel.load(Ordering::SeqCst) {
                return;
            }
            let portion: Vec<&str> = portion.iter().map(String::as_str).collect();
            match session.score(&reward, &portion) {
                Ok(scored) => rows.extend(scored),
                Err(error) => {
                    let refusal = Refusal::of_run(&error, outside);
                    let status = match refusal.status.is_server_error() && !outside {
                        true => axum::http::StatusCode::UNPROCESSABLE_ENTITY,
                        false => refusal.status,
                    };
                    return drop(tell.send(Err(refusal.with_status(status).at("reward"))));
                }
            }
        }
        let _ = tell.send(Ok(rows));
    });
    app.pool.submit(&ticket, &client.lane, vec![work]).map_err(|refused| match refused {
        Refused::Full { waiting, retry } => Refusal::too_busy(retry, waiting),
        Refused::Closed => Refusal::draining(),
    })?;
    let rows = told.await.unwrap_or_else(|_| Err(Refusal::draining()))?;
    let row = |(index, scored): (usize, treasure::Scored)| {
        json!({
            "index": index,
            "object": "score",
            "reward": scored.reward,
            "rewards": scored.rewards,
            "detail": scored.detail,
        })
    };
    let data: Vec<Value> = rows.into_iter().enumerate().map(row).collect();
    Ok(Json(json!({"object": "list", "data": data, "reward": spec.to_string()})))
}
