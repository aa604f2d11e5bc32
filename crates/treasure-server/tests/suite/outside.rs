//! Reward servers that hang, lie or die: whoever asked for them is told, and nobody else waits.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use treasure::SessionOptions;
use treasure_server::{App, ServeOptions};

use crate::{
    call::{complete, get, post},
    toy,
};

/// How a reward server treats a request of so many texts.
type Manner = fn(&mut TcpStream, usize) -> std::io::Result<()>;

fn say(stream: &mut TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn rewards(stream: &mut TcpStream, rewards: Vec<Value>) -> std::io::Result<()> {
    say(stream, "200 OK", &json!({ "rewards": rewards }).to_string())
}

/// Reads a request and says how many texts it has.
fn texts(stream: &mut TcpStream) -> Option<usize> {
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).ok().filter(|&read| read > 0)?;
        got.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&got);
        let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_str::<Value>(body) {
            return body["query"].as_array().map(Vec::len);
        }
    }
}

/// Starts a reward server; a specification that asks it.
fn server(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut stream = stream;
                if let Some(count) = texts(&mut stream) {
                    let _ = manner(&mut stream, count);
                }
            });
        }
    });
    format!("reward+http://{address}")
}

/// A server that allows a reward, and waits 0.3 s for it.
fn app(spec: &str, options: ServeOptions) -> Arc<App> {
    let session = toy::session();
    let patience = Duration::from_millis(300);
    let quick = SessionOptions { reward_timeout: patience, ..session.options().clone() };
    let options = ServeOptions { allow: vec![spec.to_owned()], ..options };
    let app = App::new(options, &session.with_options(quick)).unwrap();
    app.load().unwrap();
    app
}

fn body(reward: &str) -> Value {
    json!({"prompt": "the dog", "max_tokens": 4, "treasure": {"reward": reward}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_server_that_is_honest_is_used() {
    let spec = server(|stream, count| rewards(stream, vec![json!(0.25); count]));
    let app = app(&spec, toy::options());
    assert_eq!(complete(&app, body(&spec)).await.ok()["choices"][0]["treasure"]["reward"], 0.25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_server_that_lies_is_a_502_that_says_so() {
    let manners: [(&str, Manner); 8] = [
        ("no JSON", |stream, _| say(stream, "200 OK", "<html>")),
        ("another shape", |stream, _| say(stream, "200 OK", "{\"rewards\": {}}")),
        ("too few", |stream, count| rewards(stream, vec![json!(1.0); count - 1])),
        ("too many", |stream, count| rewards(stream, vec![json!(1.0); count + 1])),
        ("no number", |stream, count| rewards(stream, vec![json!("NaN"); count])),
        ("nothing", |stream, count| rewards(stream, vec![Value::Null; count])),
        ("a refusal", |stream, _| say(stream, "403 Forbidden", "no")),
        ("half", |stream, _| {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"rew")
        }),
    ];
    for (what, manner) in manners {
        let spec = server(manner);
        let app = app(&spec, toy::options());
        let began = Instant::now();
        let (status, message, _) = complete(&app, body(&spec)).await.refusal();
        assert_eq!(status, 502, "{what}: {message}");
        let scored = post(&app, "/v1/score", json!({"input": "the dog", "reward": spec})).await;
        assert_eq!(scored.refusal().0, 502, "{what}");
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: {:?}", began.elapsed());
        // A stream has begun by then, and tells it in its midst.
        let mut streamed = body(&spec);
        (streamed["stream"], streamed["diffusing"]) = (json!(true), json!(true));
        let events = complete(&app, streamed).await.events();
        assert!(events.last().unwrap().contains("\"error\""), "{what}: {events:?}");
        complete(&app, body("contains:dog")).await.ok();
    }
}

fn hang(_: &mut TcpStream, _: usize) -> std::io::Result<()> {
    thread::sleep(Duration::from_secs(600));
    Ok(())
}

/// Sends a byte now and then, and never ends.
fn drip(stream: &mut TcpStream, _: usize) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")?;
    loop {
        stream.write_all(b" ")?;
        thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_server_that_hangs_is_given_up_and_holds_up_nobody() {
    for manner in [hang as Manner, drip] {
        let spec = server(manner);
        let app = app(&spec, toy::options());
        let began = Instant::now();
        let asked = tokio::spawn({
            let (app, spec) = (app.clone(), spec.clone());
            async move { (complete(&app, body(&spec)).await.refusal(), Instant::now()) }
        });
        while !get(&app, "/metrics").await.text().contains("treasure_searches_running 1") {
            assert!(began.elapsed() < Duration::from_secs(10), "never began");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        complete(&app, body("contains:dog")).await.ok();
        let other = Instant::now();
        let ((status, message, _), given_up) = asked.await.unwrap();
        assert_eq!(status, 502, "{message}");
        assert!(other < given_up, "another search waited for it");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_server_that_hangs_does_not_keep_the_server_from_ending() {
    let spec = server(hang);
    let session = toy::session();
    let options = ServeOptions { allow: vec![spec.clone()], drain_seconds: 0.2, ..toy::options() };
    // With the usual patience of a minute.
    let app = App::new(options, &session).unwrap();
    app.load().unwrap();
    let asked = tokio::spawn({
        let app = app.clone();
        async move { complete(&app, body(&spec)).await.refusal() }
    });
    while !get(&app, "/metrics").await.text().contains("treasure_searches_running 1") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = Instant::now();
    assert!(app.drain().await, "something still runs");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(asked.await.unwrap().0, 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_that_hangs_is_told_before_the_deadline_of_the_search() {
    let spec = server(hang);
    let options = ServeOptions { allow: vec![spec.clone()], max_seconds: 6.0, ..toy::options() };
    // With no patience of the session's own but the usual.
    let app = App::new(options, &toy::session()).unwrap();
    app.load().unwrap();
    let (status, message, param) = complete(&app, body(&spec)).await.refusal();
    assert_eq!((status, param), (502, json!("treasure.reward")), "{message}");
    assert!(message.contains("no answer within 2s"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_under_a_name_tells_nobody_where_it_lives() {
    let place = |spec: &str| spec.rsplit('/').next().unwrap().to_owned();
    let honest = server(|stream, count| rewards(stream, vec![json!(0.25); count]));
    let good = app(&format!("far={honest} + 0.5*{honest}"), toy::options());
    let asked = json!({"input": "the dog", "reward": "own:far"});
    let said = post(&good, "/v1/score", asked.clone()).await.ok();
    assert_eq!(said["data"][0]["reward"], 0.375);
    let listed = get(&good, "/v1/rewards").await.ok();
    let made = complete(&good, body("own:far")).await.ok();
    for said in [said, listed, made] {
        assert!(!said.to_string().contains(&place(&honest)), "{said}");
    }
    let manners: [Manner; 2] = [|stream, _| say(stream, "403 Forbidden", "no"), hang];
    for manner in manners {
        let spec = server(manner);
        let bad = app(&format!("far={spec}"), toy::options());
        let mut streamed = body("own:far");
        (streamed["stream"], streamed["diffusing"]) = (json!(true), json!(true));
        let refused = complete(&bad, body("own:far")).await.refusal();
        let scored = post(&bad, "/v1/score", asked.clone()).await.refusal();
        for (status, message, _) in [refused, scored] {
            assert_eq!(status, 502, "{message}");
            assert!(message.contains("own:far") && !message.contains(&place(&spec)), "{message}");
        }
        let last = complete(&bad, streamed).await.events().pop().unwrap();
        assert!(last.contains("own:far") && !last.contains(&place(&spec)), "{last}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lengths_and_texts_are_held_to_the_servers_own_limits() {
    let app = toy::app(toy::options());
    let long = json!({"prompt": "the", "max_tokens": 100_000});
    let (status, message, param) = complete(&app, long).await.refusal();
    assert_eq!((status, param), (400, json!("max_tokens")));
    assert!(message.contains("this server's limit"), "{message}");
    let large = json!({"input": ["a", "a".repeat(300_000)], "reward": "length:1..2"});
    let (status, message, param) = post(&app, "/v1/score", large).await.refusal();
    assert_eq!((status, param), (400, json!("input")), "{message}");
    let unknown = complete(&app, body("own:nothing")).await.refusal();
    assert!(unknown.0 == 400 && unknown.1.contains("GET /v1/rewards"), "{unknown:?}");
}
