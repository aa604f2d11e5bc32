//! What there is: models, rewards, the schema, the OpenAPI document, health and metrics.

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use treasure::{Plan, Request};

use crate::{
    app::App,
    json::Json,
    metrics::CONTENT_TYPE,
    options::Served,
    refusal::{Refusal, Result},
    schema,
};

fn model(app: &App, served: &Served) -> Value {
    json!({
        "id": served.id,
        "object": "model",
        "created": 0,
        "owned_by": "treasure",
        "chat": app.talks(served),
    })
}

pub(crate) async fn models(State(app): State<Arc<App>>) -> Json {
    let data: Vec<Value> = app.models().iter().map(|served| model(&app, served)).collect();
    Json(json!({"object": "list", "data": data}))
}

pub(crate) async fn one_model(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json> {
    Ok(Json(model(&app, &*app.served(Some(&id))?)))
}

pub(crate) async fn rewards(State(app): State<Arc<App>>) -> Result<Json> {
    Ok(Json(app.rewards()?.clone()))
}

/// The schema; `?reward=SPEC` asks for the defaults that a search for that reward has.
pub(crate) async fn schema(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Json> {
    let query = query.unwrap_or_default();
    let mut asked = form_urlencoded::parse(query.as_bytes());
    let Some((_, reward)) = asked.find(|(name, _)| name == "reward") else {
        return Ok(Json(app.schema().clone()));
    };
    let request = Request { reward: Some(reward.into_owned()), ..Request::default() };
    let wrong = |error: treasure::Error| Refusal::of_request(&error, &[("reward", "reward")]);
    let plan = Plan::new(&request).map_err(wrong)?;
    app.policy().check(&plan.reward, "reward")?;
    let defaults = schema::defaults(&request).map_err(wrong)?;
    Ok(Json(schema::treasure(app.limits(), defaults)))
}

pub(crate) async fn openapi(State(app): State<Arc<App>>) -> Json {
    Json(app.openapi().clone())
}

/// The process answers.
pub(crate) async fn health() -> Json {
    Json(json!({"status": "ok"}))
}

/// New work is taken.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Json> {
    app.check_open()?;
    Ok(Json(json!({"status": "ready"})))
}

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = app.metrics.text(app.pool.load(), app.session.seated(), app.session.traffic());
    (StatusCode::OK, [(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}
