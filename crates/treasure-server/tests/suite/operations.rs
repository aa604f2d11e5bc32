//! Keys, queue, metrics, readiness, origins.

use std::{io::Write as _, time::Duration};

use axum::{body::Body, http::Request};
use serde_json::json;
use treasure_server::{App, ServeOptions, router};

use crate::{
    call::{complete, get, post, send},
    toy,
};

fn slow(tokens: usize) -> serde_json::Value {
    json!({"prompt": "the slow dog", "max_tokens": tokens, "treasure": {"reward": "contains:dog", "method": "fhs"}})
}

#[tokio::test]
async fn keys_guard_the_api_and_not_the_page() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "alice sesame\nbob open-up").unwrap();
    let options = ServeOptions { api_key_file: Some(file.path().into()), ..toy::options() };
    let app = toy::app(options);
    let routes = router(app.clone());
    let ask = |path: &str, key: Option<&str>| {
        let mut request = Request::get(path);
        if let Some(key) = key {
            request = request.header("authorization", key);
        }
        send(&routes, request.body(Body::empty()).unwrap())
    };
    for path in ["/", "/main.js", "/health", "/ready", "/openapi.json"] {
        assert_eq!(ask(path, None).await.status, 200, "{path}");
    }
    for path in ["/v1/models", "/v1/rewards", "/v1/schema", "/metrics"] {
        let refused = ask(path, None).await;
        assert_eq!(refused.header("www-authenticate"), "Bearer");
        let (status, message, _) = refused.refusal();
        assert_eq!(status, 401, "{path}");
        assert!(message.contains("got none"), "{message}");
        for wrong in
            ["Bearer other", "Bearer ", "Basic sesame", "sesame", "Bearer sesam", "Bearer sesame2"]
        {
            let (status, message, _) = ask(path, Some(wrong)).await.refusal();
            assert_eq!(status, 401, "{wrong}");
            assert!(message.contains("got another"), "{message}");
        }
        assert_eq!(ask(path, Some("Bearer sesame")).await.status, 200, "{path}");
        assert_eq!(ask(path, Some("bearer open-up")).await.status, 200, "{path}");
    }
    assert_eq!(complete(&app, json!({"prompt": "the"})).await.refusal().0, 401);
}

#[tokio::test]
async fn without_a_key_file_any_header_is_ignored() {
    let app = toy::app(toy::options());
    let request = Request::get("/v1/models").header("authorization", "Bearer whatever");
    assert_eq!(send(&router(app), request.body(Body::empty()).unwrap()).await.status, 200);
}

#[tokio::test]
async fn pages_of_other_sites_are_refused_unless_allowed() {
    let foreign = |app: &std::sync::Arc<App>| {
        let request = Request::post("/v1/score")
            .header("host", "127.0.0.1:8080")
            .header("origin", "https://elsewhere.org")
            .body(Body::from(json!({"input": "a", "reward": "length:1..2"}).to_string()));
        let routes = router(app.clone());
        async move { send(&routes, request.unwrap()).await }
    };
    let app = toy::app(toy::options());
    let answer = foreign(&app).await;
    assert_eq!(answer.refusal().0, 403);
    assert_eq!(answer.header("access-control-allow-origin"), "");
    let app =
        toy::app(ServeOptions { cors: vec!["https://elsewhere.org".into()], ..toy::options() });
    let answer = foreign(&app).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), "https://elsewhere.org");
}

#[tokio::test]
async fn a_server_beyond_this_machine_needs_keys_or_a_word() {
    let beyond = ServeOptions { host: "0.0.0.0".into(), ..toy::options() };
    let error = App::new(beyond.clone(), &toy::session()).err().unwrap();
    assert!(error.to_string().contains("expected keys"), "{error}");
    assert!(App::new(ServeOptions { open: true, ..beyond }, &toy::session()).is_ok());
}

#[tokio::test]
async fn a_full_queue_is_a_429_that_says_when_to_come_back() {
    let session = toy::session();
    let narrow = treasure::SessionOptions { in_flight: 1, ..session.options().clone() };
    let session = session.with_options(narrow);
    let app = App::new(ServeOptions { max_queue: 2, ..toy::options() }, &session).unwrap();
    app.load().unwrap();
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { complete(&app, slow(30)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let refused = complete(&app, slow(2)).await;
    let (status, message, _) = refused.refusal();
    assert_eq!(status, 429, "{message}");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    for answer in busy {
        answer.await.unwrap().ok();
    }
    // More than could ever be taken is a 400.
    let mut many = slow(2);
    many["n"] = 10.into();
    let (status, _, param) = complete(&app, many).await.refusal();
    assert_eq!((status, param), (400, json!("n")));
}

#[tokio::test]
async fn a_search_ends_at_the_operators_deadline_with_its_best_so_far() {
    let app = toy::app(ServeOptions { max_seconds: 0.2, ..toy::options() });
    let answer = complete(&app, slow(60)).await.ok();
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["treasure"]["stopped"], &choice["finish_reason"]),
        (&json!("max-seconds"), &json!("length"))
    );
    let limits = std::collections::BTreeMap::from([("max_nfe".to_owned(), 5)]);
    let app = toy::app(ServeOptions { limits, ..toy::options() });
    let answer = complete(&app, slow(20)).await.ok();
    assert_eq!(answer["choices"][0]["treasure"]["cost"]["nfe"], 5);
}

#[tokio::test]
async fn draining_takes_no_new_work_and_ends_the_old_with_its_best() {
    let app = toy::app(ServeOptions { drain_seconds: 0.3, ..toy::options() });
    let running = {
        let app = app.clone();
        tokio::spawn(async move { complete(&app, slow(70)).await })
    };
    tokio::time::sleep(Duration::from_millis(150)).await;
    let drained = {
        let app = app.clone();
        tokio::spawn(async move { app.drain().await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    let refused = complete(&app, slow(2)).await;
    assert_eq!(refused.refusal().0, 503);
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(get(&app, "/ready").await.refusal().0, 503);
    assert_eq!(get(&app, "/health").await.status, 200);
    assert_eq!(
        post(&app, "/v1/score", json!({"input": "a", "reward": "cola"})).await.refusal().0,
        503
    );
    let cut = running.await.unwrap().ok();
    assert_eq!(cut["choices"][0]["treasure"]["stopped"], "interrupted");
    assert!(drained.await.unwrap());
}

#[tokio::test]
async fn a_server_that_still_loads_is_not_ready() {
    let app = App::new(toy::options(), &toy::session()).unwrap();
    assert_eq!(get(&app, "/ready").await.refusal().0, 503);
    assert_eq!(get(&app, "/health").await.status, 200);
    assert_eq!(complete(&app, slow(2)).await.refusal().0, 503);
}

#[tokio::test]
async fn metrics_count_what_was_done() {
    let app = toy::app(toy::options());
    let answer = complete(&app, slow(8)).await.ok();
    complete(&app, json!({"prompt": 3})).await;
    let answered = get(&app, "/metrics").await;
    assert!(answered.header("content-type").starts_with("application/openmetrics-text"));
    let text = answered.text();
    let has = |line: &str| assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    has("treasure_requests_total{route=\"/v1/completions\",method=\"POST\",status=\"200\"} 1");
    has("treasure_requests_total{route=\"/v1/completions\",method=\"POST\",status=\"400\"} 1");
    has("treasure_searches_total{outcome=\"done\"} 1");
    let nfe = &answer["choices"][0]["treasure"]["cost"]["nfe"];
    has(&format!("treasure_nfe_total {nfe}"));
    has("treasure_queue_length 0");
    has("treasure_searches_running 0");
    assert!(text.ends_with("# EOF\n"));
}
