//! Keys, queue, metrics, readiness, origins.

use std::{io::Write as _, time::Duration};

use axum::{body::Body, http::Request};
use serde_json::json;
use treasure::rewards::TextReward;
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
    // An answer is there a moment before its search has left.
    let answered = loop {
        let answered = get(&app, "/metrics").await;
        if answered.text().contains("\ntreasure_searches_running 0\n") {
            break answered;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
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

#[tokio::test]
async fn two_keys_take_turns_and_a_small_request_does_not_wait_for_a_large_one() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "alice sesame\nbob open-up").unwrap();
    let session = toy::session();
    let narrow = treasure::SessionOptions { in_flight: 1, ..session.options().clone() };
    let options = ServeOptions { api_key_file: Some(file.path().into()), ..toy::options() };
    let app = App::new(options, &session.with_options(narrow)).unwrap();
    app.load().unwrap();
    let ask = |key: &str, n: usize| {
        let mut body = slow(12);
        body["n"] = n.into();
        let request = Request::post("/v1/completions")
            .header("authorization", format!("Bearer {key}"))
            .body(Body::from(body.to_string()))
            .unwrap();
        let routes = router(app.clone());
        tokio::spawn(async move { send(&routes, request).await })
    };
    let many = ask("sesame", 8);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(ask("open-up", 1).await.unwrap().status, 200);
    assert!(!many.is_finished(), "the one text waited for all eight");
    let metrics = Request::get("/metrics").header("authorization", "Bearer sesame");
    let text = send(&router(app.clone()), metrics.body(Body::empty()).unwrap()).await.text();
    let name = "treasure_searches_total{outcome=\"done\"} ";
    let done = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    assert!(done.parse::<f64>().unwrap() <= 4.0, "{done} searches were done before it");
    assert_eq!(many.await.unwrap().ok()["choices"].as_array().unwrap().len(), 8);
}

/// A reward of a hundredth of a second a text.
#[derive(Debug)]
struct Careful;

impl TextReward for Careful {
    fn name(&self) -> &str {
        "careful"
    }

    fn score(&self, texts: &[&str]) -> treasure::rewards::Result<Vec<f64>> {
        std::thread::sleep(Duration::from_millis(10) * texts.len() as u32);
        Ok(texts.iter().map(|text| text.len() as f64).collect())
    }
}

#[tokio::test]
async fn scoring_ends_at_the_operators_deadline_and_is_counted() {
    let session = toy::session().with_options(toy::session().options().clone());
    session.add_reward(Careful);
    let options = ServeOptions { max_seconds: 0.4, ..toy::options() };
    let app = App::new(options, &session).unwrap();
    app.load().unwrap();
    let texts = |count: usize| (0..count).map(|n| "a".repeat(n + 1)).collect::<Vec<_>>();
    let few = json!({"input": texts(20), "reward": "own:careful"});
    assert_eq!(post(&app, "/v1/score", few).await.ok()["data"][19]["reward"], 20.0);
    let many = json!({"input": texts(400), "reward": "own:careful"});
    let (status, message, param) = post(&app, "/v1/score", many).await.refusal();
    assert_eq!((status, param), (422, json!("input")), "{message}");
    assert!(message.contains("of 400") && message.contains("fewer texts"), "{message}");
    let text = get(&app, "/metrics").await.text();
    let name = "treasure_reward_calls_total ";
    let calls = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let calls: f64 = calls.parse().unwrap();
    assert!((52.0..200.0).contains(&calls), "{calls}");
}

#[tokio::test]
async fn a_prompt_has_a_limit_that_can_be_set() {
    let app = toy::app(ServeOptions { max_prompt: 20, ..toy::options() });
    let long = "the dog ".repeat(4);
    let own = json!({"reward": "contains:dog"});
    for (path, body, param) in [
        ("/v1/completions", json!({"prompt": long, "treasure": own}), "prompt"),
        ("/v1/fim/completions", json!({"prompt": "a", "suffix": long, "treasure": own}), "suffix"),
        ("/v1/score", json!({"input": ["a", long], "reward": "contains:dog"}), "input"),
    ] {
        let (status, message, at) = post(&app, path, body).await.refusal();
        assert_eq!((status, at), (400, json!(param)), "{path}");
        assert!(message.contains("at most 20 bytes, got 32"), "{message}");
    }
    complete(&app, json!({"prompt": "the dog", "max_tokens": 2, "treasure": own})).await.ok();
}
