//! Every way to be refused, in OpenAI's shape, beside the field it belongs to.

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use treasure_server::router;

use crate::{
    call::{complete, get, post, send},
    toy,
};

#[tokio::test]
async fn wrong_fields_are_named_with_what_was_expected() {
    let app = toy::app(toy::options());
    let wrong: &[(&str, Value, &str, &str)] = &[
        ("prompt", json!(3), "prompt", "expected a text"),
        ("prompt", json!([1, 2]), "prompt", "token ids"),
        ("prompt", json!([]), "prompt", "expected 1 to"),
        ("max_tokens", json!("many"), "max_tokens", "whole number"),
        ("max_tokens", json!(0), "max_tokens", "at least 1"),
        ("max_tokens", json!(60_000), "max_tokens", "at most 2048"),
        ("max_tokens", json!(100), "prompt", "at most 80 tokens"),
        ("n", json!(0), "n", "at least 1"),
        ("n", json!(1_000), "n", "at most 128"),
        ("seed", json!(-1), "seed", "at least 0"),
        ("stop", json!([""]), "stop", "1 to 256 bytes"),
        ("stream", json!("yes"), "stream", "true or false"),
        ("diffusing", json!(true), "diffusing", "stream: true"),
        ("temperature", json!(0.7), "temperature", "expected 0 or 1"),
        ("top_p", json!(0.9), "top_p", "min_p"),
        ("logprobs", json!(5), "logprobs", "expected none"),
        ("best_of", json!(4), "best_of", "bon"),
        ("logit_bias", json!({"50256": -100}), "logit_bias", "avoids:"),
        ("tools", json!([{"type": "function"}]), "tools", "expected none"),
        ("response_format", json!({"type": "xml"}), "response_format", "expected an object"),
        ("guided_regex", json!(1), "guided_regex", "expected a regular expression"),
        ("guided_regex", json!("("), "guided_regex", "unclosed group"),
        ("guided_grammar", json!("root ::= x"), "guided_grammar", "does not support"),
        ("structured_outputs", json!({"lark": ""}), "structured_outputs", "one of json"),
        ("beam_width", json!(3), "beam_width", "under `treasure`"),
        ("treasue", json!({}), "treasue", "did you mean treasure?"),
        ("treasure", json!(3), "treasure", "an object"),
        ("treasure", json!({"beam_widht": 3}), "treasure.beam_widht", "did you mean beam_width?"),
        ("treasure", json!({"beam_width": 65}), "treasure.beam_width", "at most 64"),
        ("treasure", json!({"beam_width": "linear:100..2"}), "treasure.beam_width", "at most 64"),
        ("treasure", json!({"beam_width": 0}), "treasure.beam_width", "at least 1"),
        ("treasure", json!({"beam_width": [1]}), "treasure.beam_width", ""),
        ("treasure", json!({"particles": 4}), "treasure.particles", "has no use"),
        ("treasure", json!({"method": "treesure"}), "treasure.method", "did you mean treasure?"),
        ("treasure", json!({"reward": "sentimnt=sad"}), "treasure.reward", "expected a reward"),
        ("treasure", json!({"reward": "regex:'('"}), "treasure.reward", ""),
        ("treasure", json!({"reward": "exec:id"}), "treasure.reward", "not allowed"),
        ("treasure", json!({"reward": "hf:/etc#0"}), "treasure.reward", "not allowed"),
        (
            "treasure",
            json!({"reward": "tei+http://127.0.0.1:9#joy"}),
            "treasure.reward",
            "not allowed",
        ),
        (
            "treasure",
            json!({"judge": ["json-schema:/etc/passwd"]}),
            "treasure.judge",
            "not allowed",
        ),
        ("treasure", json!({"screen": "exec:id"}), "treasure.screen", "not allowed"),
        ("treasure", json!({"min_length": 99}), "treasure.min_length", "at most the length"),
        ("treasure", json!({"length": 9}), "max_tokens", "expected one length"),
        ("treasure", json!({"model": "/etc"}), "treasure.model", "beside `treasure`"),
        ("treasure", json!({"dtype": "f16"}), "treasure.dtype", "operator"),
        ("treasure", json!({"precision": "bf16"}), "treasure.precision", "operator"),
        ("treasure", json!({"trace": true}), "treasure.trace", "diffusing"),
        ("treasure", json!({"template": "no hole"}), "prompt", "got both"),
        ("treasure", json!({"prior": -1.0}), "treasure.prior", "at least 0"),
        ("treasure", json!({"min_p": 2}), "treasure.min_p", "[0, 1]"),
        ("treasure", json!({"max_seconds": 0}), "treasure.max_seconds", "positive"),
    ];
    for (field, value, param, says) in wrong {
        let mut body =
            json!({"prompt": "the dog", "max_tokens": 6, "treasure": {"reward": "contains:dog"}});
        body[*field] = value.clone();
        let (status, message, beside) = complete(&app, body).await.refusal();
        assert_eq!((status, &beside), (400, &json!(param)), "{field} = {value}: {message}");
        assert!(message.contains(says), "{field} = {value}: {message}");
    }
}

#[tokio::test]
async fn what_changes_nothing_is_taken() {
    let app = toy::app(toy::options());
    let body = json!({
        "prompt": "the dog", "max_tokens": 4, "temperature": 1, "top_p": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0,
        "logit_bias": {}, "logprobs": null, "best_of": 1, "user": "me", "metadata": {"a": "b"}, "stream": false,
        "stream_options": null, "stop": [], "response_format": {"type": "text"}, "unheard_of": 1, "echo": null,
        "treasure": {"reward": "contains:dog", "beam_width": null}});
    complete(&app, body).await.ok();
}

#[tokio::test]
async fn a_search_that_fails_says_why_and_harms_no_other() {
    let app = toy::app(toy::options());
    let treasure = json!({"reward": "contains:dog"});
    let boom = json!({"prompt": "the boom", "max_tokens": 6, "treasure": treasure});
    let fine = json!({"prompt": "the slow dog", "max_tokens": 6, "treasure": treasure});
    let (broken, well) = tokio::join!(complete(&app, boom), complete(&app, fine));
    let (status, message, _) = broken.refusal();
    assert_eq!(status, 500);
    assert!(message.contains("boom"), "{message}");
    well.ok();
    // What its own arithmetic cannot give is the request's affair.
    let body = json!({"prompt": "the", "max_tokens": 4, "treasure": {"reward": "1e308*length:1..2 + 1e308*length:1..2 + 1e308*distinct:1"}});
    let (status, message, param) = complete(&app, body).await.refusal();
    assert_eq!((status, param), (422, json!("treasure.reward")), "{message}");
    let body = json!({"prompt": "the", "max_tokens": 4, "treasure": {"reward": "contains:dog", "max_nfe": 0}});
    let (status, message, _) = complete(&app, body).await.refusal();
    assert_eq!(status, 422, "{message}");
    assert!(message.contains("raise max_nfe"), "{message}");
}

#[tokio::test]
async fn unknown_models_routes_and_ways_of_asking() {
    let app = toy::app(toy::options());
    let (status, message, param) =
        complete(&app, json!({"model": "owm", "prompt": ""})).await.refusal();
    assert_eq!((status, param), (404, json!("model")));
    assert!(
        message.contains("expected one of own") && message.contains("did you mean own?"),
        "{message}"
    );
    assert_eq!(get(&app, "/v1/models/none").await.refusal().0, 404);
    assert_eq!(get(&app, "/nowhere").await.refusal().0, 404);
    assert_eq!(get(&app, "/v1/nowhere/at/all").await.refusal().0, 404);
    let answer = get(&app, "/v1/completions").await;
    assert_eq!(answer.refusal().0, 405);
    assert_eq!(answer.header("allow"), "POST");
    assert_eq!(post(&app, "/v1/models", json!({})).await.refusal().0, 405);
}

#[tokio::test]
async fn bodies_that_are_none() {
    let app = toy::app(toy::options());
    let routes = router(app.clone());
    for body in [&b""[..], b"{", b"[]", b"null", b"\"text\"", b"{\"prompt\": \"\xff\"}", b"\x00"] {
        let request = Request::post("/v1/completions").body(Body::from(body)).unwrap();
        let (status, message, param) = send(&routes, request).await.refusal();
        assert_eq!((status, param), (400, json!("body")), "{body:?}: {message}");
    }
    let deep = "[".repeat(10_000);
    let request = Request::post("/v1/completions").body(Body::from(deep)).unwrap();
    assert_eq!(send(&routes, request).await.refusal().0, 400);
    let large = json!({"prompt": "x".repeat(2 << 20)}).to_string();
    for with_length in [true, false] {
        let mut request = Request::post("/v1/completions");
        if with_length {
            request = request.header("content-length", large.len());
        }
        let request = request.body(Body::from(large.clone())).unwrap();
        assert_eq!(send(&routes, request).await.refusal().0, 413);
    }
    let prompt = "dog ".repeat(100_000);
    let (status, _, param) = complete(&app, json!({"prompt": prompt})).await.refusal();
    assert_eq!((status, param), (400, json!("prompt")));
}

#[tokio::test]
async fn an_operator_can_allow_more_by_name() {
    let mut options = toy::options();
    options.allow = vec!["plain=contains:dog + 0.5*length:1..4".into()];
    let app = toy::app(options);
    let listed = get(&app, "/v1/rewards").await.ok();
    assert!(
        listed["data"].as_array().unwrap().iter().any(|entry| entry["id"] == "own:plain"),
        "{listed}"
    );
    let body = json!({"input": "the dog", "reward": "own:plain"});
    assert_eq!(post(&app, "/v1/score", body).await.ok()["data"][0]["reward"], 1.5);
    let body =
        json!({"prompt": "the", "max_tokens": 4, "treasure": {"reward": "own:plain + distinct:2"}});
    complete(&app, body).await.ok();
    let (status, ..) =
        post(&app, "/v1/score", json!({"input": "a", "reward": "own:other"})).await.refusal();
    assert_eq!(status, 400);
}
