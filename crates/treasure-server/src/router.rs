//! Which path leads where.

use std::{any::Any, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowOrigin, Any as AnyOrigin, CorsLayer},
};

use crate::{
    app::App,
    ask::Api,
    refusal::{Refusal, Result},
    routes::{generate, lists, page, score},
    watch,
};

/// Every route of a server, ready to be called or served.
pub fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/v1/completions", generate::by(Api::Completions))
        .route("/v1/chat/completions", generate::by(Api::Chat))
        .route("/v1/fim/completions", generate::by(Api::Fim))
        .route("/v1/refine", generate::by(Api::Refine))
        .route("/v1/score", post(score::score))
        .route("/v1/models", get(lists::models))
        .route("/v1/models/{*id}", get(lists::one_model))
        .route("/v1/rewards", get(lists::rewards))
        .route("/v1/schema", get(lists::schema))
        .route("/openapi.json", get(lists::openapi))
        .route("/health", get(lists::health))
        .route("/ready", get(lists::ready))
        .route("/metrics", get(lists::metrics))
        .route("/", get(page::index))
        .route("/{file}", get(page::file))
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(app.clone(), watch::around));
    if !app.options.cors.is_empty() {
        router = router.layer(cors(&app.options.cors));
    }
    router.with_state(app)
}

fn cors(origins: &[String]) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE])
        .expose_headers([HeaderName::from_static("x-request-id"), header::RETRY_AFTER]);
    if origins.iter().any(|origin| origin == "*") {
        return layer.allow_origin(AnyOrigin);
    }
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    layer.allow_origin(AllowOrigin::list(origins))
}

pub(crate) fn no_route(path: &str) -> Refusal {
    let shown: String = path.chars().take(80).collect();
    Refusal::new(StatusCode::NOT_FOUND, format!("no such route: {shown}"))
        .with_hint("GET /openapi.json lists the routes")
}

async fn nowhere(request: Request) -> Refusal {
    no_route(request.uri().path())
}

async fn not_so(request: Request) -> Result<()> {
    let message = format!("{}: not the way to ask {}", request.method(), request.uri().path());
    Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message)
        .with_hint("GET /openapi.json says how each route is asked"))
}

fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    Refusal::internal("the server panicked; this is a bug").into_response()
}
