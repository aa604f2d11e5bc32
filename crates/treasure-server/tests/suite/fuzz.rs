//! Wrong requests, made from the server's own schema: none is a 500, none a panic. Every documented field
//! with every kind of value, and two thousand by chance in the check; `FUZZ_REQUESTS=20000 FUZZ_SEED=1` makes others.

use std::collections::BTreeMap;

use axum::{body::Body, http::Request};
use serde_json::{Map, Value, json};
use treasure::Method;
use treasure_server::{ServeOptions, router};

use crate::{
    call::{get, send},
    toy,
};

/// A small generator of numbers (splitmix64), so that a failure can be had again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.roll(items.len())]
    }
}

/// Values that fit nowhere, or only just.
fn odd(dice: &mut Dice) -> Value {
    let number = [0.0, -0.0, -1.0, 0.5, 1e-320, 1e308, -1e308, 1.5, 3.999, 65.0];
    let texts = [
        "",
        " ",
        "x",
        "0",
        "-1",
        "1e999",
        "NaN",
        "linear:",
        "linear:1..",
        "cosine:9..0",
        "1,,2",
        ",",
        "[MASK]",
        "[MASK:999999999]",
        "[MASK:",
        "\u{0}",
        "\u{202e}é░😀",
        "own:",
        "own:x",
        "exec:id",
        "hf:",
        "hf:/#",
        "ppl:../..",
        "min(",
        "min(cola",
        "regex:(((",
        "(a{1000}){1000}",
        "(.*a){40}b",
        "(dog|cat| )+",
        "regex:'a{1000}{1000}{1000}'",
        "contains:",
        "length:9..1",
        "json-schema:/etc/passwd",
        "1e308*length:1..2 + 1e308*length:1..2",
        "product(cola, perplexity)",
        "tei+http://[::1",
        "NaN*cola",
        "0*cola",
        "(((((((((((((((cola",
        "atleast(cola, inf)",
        "step(length:1..2, 1e400)",
        "treasure",
        "draw",
        "fk",
        "paper",
    ];
    let schemas = [
        json!({"type": "string", "pattern": "(a{1000}){1000}"}),
        json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1_000_000_000}),
        json!({"$ref": "http://127.0.0.1:9/schema"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"enum": []}),
        json!({"type": "integer", "minimum": 5, "maximum": 1}),
        json!({"type": "json_schema", "json_schema": {"schema": {"type": "boolean"}}}),
        json!({"type": "json_object"}),
        json!({"regex": "(.*dog){30}"}),
        json!({"choice": ["dog", ""]}),
    ];
    match dice.roll(15) {
        0 => Value::Null,
        1 => json!(dice.roll(2) == 0),
        2 => json!(*dice.pick(&[0u64, 1, 2, 63, 64, 65, 4096, 65_536, u64::MAX, u64::MAX - 1])),
        3 => json!(*dice.pick(&[-1i64, i64::MIN, -65])),
        4 => json!(*dice.pick(&number)),
        5..=8 => json!(*dice.pick(&texts)),
        9 => json!([]),
        10 => json!({}),
        11 => json!([odd(dice), odd(dice)]),
        12 => json!({*dice.pick(&texts): odd(dice)}),
        13 => dice.pick(&schemas).clone(),
        _ => json!("a".repeat(1 << dice.roll(13))),
    }
}

fn names(schema: &Value, name: &str) -> Vec<String> {
    let properties = schema.pointer(&format!("/components/schemas/{name}/properties"));
    properties.and_then(Value::as_object).unwrap().keys().cloned().collect()
}

/// A request that is right, with up to four things wrong with it.
fn request(dice: &mut Dice, fields: &[String], own: &[String], path: &str) -> Value {
    let mut body = json!({"prompt": "the dog", "max_tokens": 3, "treasure": {"reward": "contains:dog", "beam_width": 2}});
    if path.contains("chat") {
        body["messages"] = json!([{"role": "user", "content": "the dog"}]);
    }
    if path.ends_with("refine") {
        body = json!({"input": "the old dog", "treasure": {"reward": "contains:cat", "rounds": 1}});
    }
    let mut own = own.to_vec();
    if dice.roll(2) == 0 {
        // A method with its own options, so that wrong ones among them reach it.
        let name = *dice.pick(Method::NAMES);
        own =
            Method::named(name).unwrap().options().into_iter().map(|(option, _)| option).collect();
        own.extend(["length", "min_length", "answer", "seed"].map(str::to_owned));
        body["treasure"]["method"] = json!(name);
        body["treasure"].as_object_mut().unwrap().shift_remove("beam_width");
    }
    for _ in 0..=dice.roll(4) {
        let value = odd(dice);
        match dice.roll(10) {
            0..=3 => {
                let name = dice.pick(fields).clone();
                body[name] = value;
            }
            4..=7 => {
                let name = dice.pick(&own).clone();
                if let Some(own) = body["treasure"].as_object_mut() {
                    own.insert(name, value);
                }
            }
            8 => {
                let mut letters: Vec<char> = dice.pick(&own).chars().collect();
                let at = dice.roll(letters.len());
                letters[at] = 'q';
                if let Some(own) = body["treasure"].as_object_mut() {
                    own.insert(letters.into_iter().collect(), value);
                }
            }
            _ => {
                let name = dice.pick(fields).clone();
                if let Some(body) = body.as_object_mut() {
                    body.shift_remove(&name);
                }
            }
        }
    }
    body
}

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

/// A server with limits so small that what happens to be right is quickly done.
fn small() -> std::sync::Arc<treasure_server::App> {
    let limits = [
        ("length", 8),
        ("samples", 4),
        ("beam_width", 4),
        ("tree_width", 4),
        ("particles", 4),
        ("steps", 64),
        ("x0_samples", 4),
        ("groups", 4),
        ("chains", 4),
        ("expand", 4),
        ("wide", 4),
        ("iterations", 8),
        ("tries", 4),
        ("rounds", 4),
        ("final_rounds", 4),
    ];
    let limits: BTreeMap<String, u64> = limits.map(|(name, most)| (name.to_owned(), most)).into();
    toy::app(ServeOptions { limits, max_queue: 10_000, ..toy::options() })
}

/// One value of every kind, and those at the edges of numbers.
fn kinds() -> Vec<Value> {
    let values = json!([
        null, true, false, 0, 1, -1, 0.5, 1e308, -1e308, u64::MAX, i64::MIN, "", "x", "1", [], ["a"], [1],
        [null], {}, {"a": 1}, {"type": "x"}
    ]);
    values.as_array().unwrap().clone()
}

/// Puts a value at a pointer of a body; what is missing on the way is made.
fn put(body: &mut Value, at: &[&str], value: Value) {
    let mut place = body;
    for name in at {
        place = match name.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[*name],
        };
    }
    *place = value;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_of_every_kind_is_answered_or_refused() {
    let app = small();
    let document = get(&app, "/openapi.json").await.ok();
    let own = names(&document, "Treasure");
    let message = json!([{"role": "user", "content": "the dog"}]);
    let steered = json!({"reward": "contains:dog", "beam_width": 2});
    let mut asked = Vec::new();
    for (path, name, base) in [
        (
            "/v1/completions",
            "CompletionRequest",
            json!({"prompt": "the dog", "max_tokens": 3, "treasure": steered}),
        ),
        (
            "/v1/chat/completions",
            "ChatRequest",
            json!({"messages": message, "max_tokens": 3, "treasure": steered}),
        ),
        (
            "/v1/fim/completions",
            "FimRequest",
            json!({"prompt": "the", "suffix": ".", "max_tokens": 2, "treasure": steered}),
        ),
        (
            "/v1/refine",
            "RefineRequest",
            json!({"input": "the old dog", "treasure": {"reward": "contains:cat", "rounds": 1}}),
        ),
        ("/v1/score", "ScoreRequest", json!({"input": "the dog", "reward": "contains:dog"})),
    ] {
        let mut places: Vec<Vec<String>> =
            names(&document, name).into_iter().map(|name| vec![name]).collect();
        let mut inner = |outer: &str, names: &[&str]| {
            let under = names.iter().map(|name| format!("{outer}/{name}"));
            places.extend(under.map(|place| place.split('/').map(str::to_owned).collect()));
        };
        if path != "/v1/score" {
            inner("treasure", &own.iter().map(String::as_str).collect::<Vec<_>>());
            inner("stream_options", &["include_usage", "include_obfuscation", "other"]);
            inner("structured_outputs", &["json", "regex", "choice", "other"]);
            inner("response_format", &["type", "json_schema", "pattern"]);
        }
        if path.contains("chat") {
            inner("messages/0", &["role", "content", "name"]);
            inner("messages/0/content/0", &["type", "text"]);
        }
        for place in places {
            let at: Vec<&str> = place.iter().map(String::as_str).collect();
            for value in kinds() {
                let mut body = base.clone();
                match at[..] {
                    ["messages", "0", "content", ..] => {
                        put(
                            &mut body,
                            &["messages", "0", "content"],
                            json!([{"type": "text", "text": "a"}]),
                        );
                    }
                    ["response_format", "json_schema"] => {
                        put(&mut body, &["response_format", "type"], "json_schema".into());
                        let mut nested = body.clone();
                        put(
                            &mut nested,
                            &["response_format", "json_schema", "schema"],
                            value.clone(),
                        );
                        asked.push((path, nested));
                    }
                    ["response_format", "pattern"] => {
                        put(&mut body, &["response_format", "type"], "regex".into());
                    }
                    ["treasure", "inner"] if path == "/v1/refine" => {
                        for option in &own {
                            let mut nested = body.clone();
                            put(&mut nested, &["treasure", "inner", "method"], "treasure".into());
                            put(&mut nested, &["treasure", "inner", option], value.clone());
                            asked.push((path, nested));
                        }
                    }
                    ["stream_options", ..] => put(&mut body, &["stream"], true.into()),
                    _ => {}
                }
                put(&mut body, &at, value);
                asked.push((path, body));
            }
        }
    }
    let (all, began) = (asked.len(), std::time::Instant::now());
    let mut tasks = Vec::new();
    for part in asked.chunks(all.div_ceil(4)) {
        let (part, routes) = (part.to_vec(), router(app.clone()));
        tasks.push(tokio::spawn(async move {
            let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
            for (path, body) in part {
                let sent = Request::post(path).body(Body::from(body.to_string())).unwrap();
                let answer = send(&routes, sent).await;
                let status = answer.status.as_u16();
                assert!(status < 500, "{path} {body}\n{status} {}", answer.text());
                if status == 200 {
                    assert!(!answer.text().contains("\"type\":\"server_error\""), "{path} {body}");
                } else {
                    answer.refusal();
                }
                *counts.entry(status).or_default() += 1;
            }
            counts
        }));
    }
    let mut total: BTreeMap<u16, usize> = BTreeMap::new();
    for task in tasks {
        for (status, count) in task.await.unwrap() {
            *total.entry(status).or_default() += count;
        }
    }
    eprintln!("{all} requests in {:.1} s: {total:?}", began.elapsed().as_secs_f64());
    assert!(total[&200] > 300 && total[&400] > all / 2, "{total:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_requests_are_all_refused_politely() {
    let (wrong, first) = (number("FUZZ_REQUESTS", 2_000), number("FUZZ_SEED", 0) as u64);
    let app = small();
    let document = get(&app, "/openapi.json").await.ok();
    let own = names(&document, "Treasure");
    let routes = [
        ("/v1/completions", names(&document, "CompletionRequest")),
        ("/v1/chat/completions", names(&document, "ChatRequest")),
        ("/v1/fim/completions", names(&document, "FimRequest")),
        ("/v1/score", names(&document, "ScoreRequest")),
        ("/v1/refine", names(&document, "RefineRequest")),
    ];
    let (routes, own) = (std::sync::Arc::new(routes), std::sync::Arc::new(own));
    let tasks: Vec<_> = (0..8u64)
        .map(|seed| {
            let (app, routes, own) = (app.clone(), routes.clone(), own.clone());
            tokio::spawn(async move {
                let mut dice = Dice(first + seed);
                let router = router(app);
                let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
                while counts
                    .iter()
                    .filter(|(status, _)| **status != 200)
                    .map(|(_, n)| n)
                    .sum::<usize>()
                    < wrong / 8
                {
                    let (path, fields) = &routes[[0, 0, 0, 1, 2, 3, 4][dice.roll(7)]];
                    let body = request(&mut dice, fields, &own, path);
                    let sent = Request::post(*path).body(Body::from(body.to_string())).unwrap();
                    let answer = send(&router, sent).await;
                    let status = answer.status.as_u16();
                    assert!(status < 500, "{path} {body}\n{status} {}", answer.text());
                    if status != 200 {
                        answer.refusal();
                    } else if answer.header("content-type").starts_with("text/event-stream") {
                        let failed = answer
                            .events()
                            .iter()
                            .any(|event| event.contains("\"type\":\"server_error\""));
                        assert!(!failed, "{path} {body}\n{}", answer.text());
                    }
                    *counts.entry(status).or_default() += 1;
                }
                counts
            })
        })
        .collect();
    let mut total = Map::new();
    for task in tasks {
        for (status, count) in task.await.unwrap() {
            let before = total.get(&status.to_string()).and_then(Value::as_u64).unwrap_or(0);
            total.insert(status.to_string(), (before + count as u64).into());
        }
    }
    eprintln!("{}", Value::Object(total.clone()));
    assert!(total["400"].as_u64().unwrap() as usize > wrong * 9 / 10, "{total:?}");
    assert!(total.contains_key("200"), "{total:?}");
}
