//! Texts and a reward → numbers.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
};
use serde_json::{Value, json};
use treasure::rewards::Spec;

use crate::{
    app::App,
    body,
    fields::Fields,
    json::Json,
    openai,
    policy::Policy,
    pool::{Refused, Work},
    refusal::{Refusal, Result},
    watch::Client,
};

/// Texts that a request may score.
const TEXTS: usize = 1_024;
/// Texts that are scored between looks at whether the client is still there.
const PORTION: usize = 32;

/// What a request asks for.
pub(crate) struct Asked {
    texts: Vec<String>,
    reward: String,
    spec: Spec,
}

pub(crate) async fn score(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Json> {
    app.check_open()?;
    let body = body::read(&app, request).await?;
    let Asked { texts, reward, spec } = read(&app, &body)?;
    drop(body);
    let outside = Policy::is_outside(&spec);
    let (came, most) = (Instant::now(), app.max_seconds());

    let ticket = app.pool.ticket();
    let (tell, told) = tokio::sync::oneshot::channel();
    let (cancel, held) = (ticket.cancel(), Arc::downgrade(&app));
    let work: Work = Box::new(move || {
        let Some(app) = held.upgrade() else { return };
        let session = &app.session;
        let waited = came.elapsed().as_secs_f64();
        if waited > most {
            let message = format!("queue: waited {waited:.0} s, longer than scoring may take");
            let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(30);
            return drop(tell.send(Err(refusal)));
        }
        let began = Instant::now();
        // A reward that cannot be built is the request's affair, one that fails is its own.
        if let Err(error) = session.score(&reward, &[]) {
            return drop(tell.send(Err(Refusal::of_request(&error, &[]).at("reward"))));
        }
        let mut rows = Vec::with_capacity(texts.len());
        for portion in texts.chunks(PORTION) {
            if cancel.load(Ordering::SeqCst) {
                return;
            }
            if began.elapsed().as_secs_f64() > most {
                let (done, all) = (rows.len(), texts.len());
                let message = format!("expected to be done within {most} s, got {done} of {all}");
                let refusal = Refusal::field("input", message);
                let refusal = refusal.with_status(StatusCode::UNPROCESSABLE_ENTITY);
                return drop(tell.send(Err(refusal.with_hint("send fewer texts in one request"))));
            }
            let portion: Vec<&str> = portion.iter().map(String::as_str).collect();
            match session.score(&reward, &portion) {
                Ok(scored) => {
                    app.metrics.scored(scored.len());
                    rows.extend(scored);
                }
                Err(error) => {
                    let refusal = Refusal::of_run(&error, outside);
                    let status = match refusal.status.is_server_error() && !outside {
                        true => StatusCode::UNPROCESSABLE_ENTITY,
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

/// Takes a body apart.
pub(crate) fn read(app: &App, body: &[u8]) -> Result<Asked> {
    let mut fields = Fields::parse(body)?;
    let Some(texts) = fields.texts("input", TEXTS)? else {
        return Err(super::no_input());
    };
    texts.iter().try_for_each(|text| app.check_text("input", text))?;
    let Some(reward) = fields.text("reward")? else {
        return Err(Refusal::expected("reward", "a reward", &Value::Null)
            .with_hint("GET /v1/rewards lists what there is"));
    };
    fields.value("model");
    openai::settle(&mut fields)?;
    // Names that nobody knows are left alone, unless something of ours was meant.
    for (name, value) in fields.rest() {
        let near = treasure::nearest(&name, ["input", "reward"]);
        if value.is_null() || (near.is_none() && !treasure::is_known(&name) && name != "treasure") {
            continue;
        }
        let refusal = Refusal::field(&name, "there is no such field");
        return Err(match near {
            Some(near) => refusal.with_hint(format!("did you mean {near}?")),
            None => refusal.with_hint("fields: input, reward"),
        });
    }
    let spec: Spec = reward.parse().map_err(|error| {
        Refusal::of_request(&treasure::Error::from(error), &[("reward", "reward")])
    })?;
    app.policy().check(&spec, "reward")?;
    Ok(Asked { texts, reward, spec })
}
