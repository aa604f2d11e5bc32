//! Over a socket: clients that vanish, stall or send half of something, and a server that ends well.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::Notify,
    task::JoinHandle,
};
use treasure_server::{App, ServeOptions, Server};

use crate::{call::complete, toy};

struct Running {
    address: SocketAddr,
    stop: Arc<Notify>,
    ended: JoinHandle<treasure::Result<()>>,
}

fn stopping(stop: &Arc<Notify>) -> impl Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + use<> {
    let stop = stop.clone();
    move || {
        let stop = stop.clone();
        Box::pin(async move { stop.notified().await })
    }
}

async fn run(options: ServeOptions) -> Running {
    // Loads what the server will ask for, so that it is ready at once.
    toy::app(toy::options());
    let server = Server::bind(App::new(options, &toy::session()).unwrap()).await.unwrap();
    let (address, stop) = (server.address(), Arc::new(Notify::new()));
    let ended = tokio::spawn(server.run(stopping(&stop)));
    let running = Running { address, stop, ended };
    loop {
        if ask(address, "GET /ready", "").await.starts_with("HTTP/1.1 200") {
            return running;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn message(line: &str, body: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn ask(address: SocketAddr, line: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(message(line, body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn slow(tokens: usize, stream: bool) -> String {
    json!({"prompt": "the slow dog", "max_tokens": tokens, "stream": stream, "diffusing": stream,
        "treasure": {"reward": "contains:dog", "method": "fhs"}})
    .to_string()
}

async fn metric(address: SocketAddr, name: &str) -> f64 {
    let text = ask(address, "GET /metrics", "").await;
    let line = text.lines().find(|line| line.starts_with(name));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

async fn until(what: &str, address: SocketAddr, name: &str, wanted: impl Fn(f64) -> bool) {
    let began = Instant::now();
    loop {
        let got = metric(address, name).await;
        if wanted(got) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: {name} is {got}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_search_within_a_step() {
    let server = run(toy::options()).await;
    for stream in [false, true] {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        // 70 steps of 10 ms and more.
        client
            .write_all(message("POST /v1/completions", &slow(70, stream)).as_bytes())
            .await
            .unwrap();
        until("it runs", server.address, "treasure_searches_running ", |n| n == 1.0).await;
        let before = metric(server.address, "treasure_searches_total{outcome=\"cancelled\"}").await;
        let began = Instant::now();
        drop(client);
        let name = "treasure_searches_total{outcome=\"cancelled\"}";
        until("it is cancelled", server.address, name, |n| n > before).await;
        assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
        until("nothing runs", server.address, "treasure_searches_running ", |n| n == 0.0).await;
    }
    server.stop.notify_one();
    server.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_queued_search_of_a_client_that_left_is_never_begun() {
    let session = toy::session();
    let narrow = treasure::SessionOptions { in_flight: 1, ..session.options().clone() };
    let session = session.with_options(narrow);
    let app = App::new(toy::options(), &session).unwrap();
    app.load().unwrap();
    let server = Server::bind(app).await.unwrap();
    let (address, stop) = (server.address(), Arc::new(Notify::new()));
    let ended = tokio::spawn(server.run(stopping(&stop)));
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(message("POST /v1/completions", &slow(40, false)).as_bytes()).await.unwrap();
    until("it runs", address, "treasure_searches_running ", |n| n == 1.0).await;
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(message("POST /v1/completions", &slow(40, false)).as_bytes()).await.unwrap();
    until("it waits", address, "treasure_queue_length ", |n| n == 1.0).await;
    drop(second);
    until("it waits no more", address, "treasure_queue_length ", |n| n == 0.0).await;
    let mut answer = String::new();
    first.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(metric(address, "treasure_searches_total{outcome=\"done\"}").await, 1.0);
    stop.notify_one();
    ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn half_a_request_holds_up_nobody() {
    let server = run(toy::options()).await;
    let mut halves = Vec::new();
    for half in [
        "POST /v1/compl",
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n{\"prompt\": \"th",
    ] {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        client.write_all(half.as_bytes()).await.unwrap();
        halves.push(client);
    }
    let answer = ask(server.address, "POST /v1/completions", &slow(3, false)).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // A body that ends early is no request.
    let mut client = halves.pop().unwrap();
    client.shutdown().await.unwrap();
    let mut said = String::new();
    let _ = client.read_to_string(&mut said).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{said}");
    // What is no HTTP at all is answered or let go.
    let mut noise = TcpStream::connect(server.address).await.unwrap();
    noise.write_all(b"\x16\x03\x01\x02\x00 hello\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = noise.read_to_end(&mut said).await;
    server.stop.notify_one();
    server.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_heard() {
    let server = run(toy::options()).await;
    let body = json!({"prompt": "x".repeat(10 << 20)}).to_string();
    let answer = ask(server.address, "POST /v1/completions", &body).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{}", &answer[..answer.len().min(300)]);
    server.stop.notify_one();
    server.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_is_stopped_finishes_what_it_began() {
    let server = run(toy::options()).await;
    let address = server.address;
    let clients: Vec<_> = [(12, false), (12, true), (25, false)]
        .map(|(tokens, stream)| {
            tokio::spawn(async move {
                ask(address, "POST /v1/completions", &slow(tokens, stream)).await
            })
        })
        .into();
    until("they run", address, "treasure_searches_running ", |n| n >= 1.0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.stop.notify_one();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let late = ask(address, "POST /v1/completions", &slow(3, false)).await;
    assert!(late.starts_with("HTTP/1.1 503"), "{late}");
    for client in clients {
        let answer = client.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\"finish_reason\":\""), "{answer}");
    }
    server.ended.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_client_that_reads_late_misses_frames_and_nothing_else() {
    let server = run(toy::options()).await;
    let mut body = json!({"prompt": "the old dog", "max_tokens": 60, "n": 12,
        "treasure": {"reward": "contains:dog,cat", "beam_width": 6, "tree_width": 6}});
    let plain = complete(&toy::app(toy::options()), body.clone()).await.ok();
    for field in ["stream", "diffusing"] {
        body[field] = true.into();
    }
    body["treasure"]["trace"] = true.into();
    // A narrow pipe, so that little is on its way.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut client = socket.connect(server.address).await.unwrap();
    let asked = message("POST /v1/completions", &body.to_string());
    client.write_all(asked.as_bytes()).await.unwrap();
    // Searches do not wait for their reader.
    let name = "treasure_searches_total{outcome=\"done\"}";
    until("all are done", server.address, name, |n| n == 12.0).await;
    let mut said = Vec::new();
    client.read_to_end(&mut said).await.unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("data: [DONE]\n\n"), "{}", &said[said.len().saturating_sub(300)..]);
    let name = "treasure_frames_dropped_total";
    until("frames were missed", server.address, name, |missed| missed > 0.0).await;
    // The end of each text, and every line of every tree.
    let data = said.lines().filter_map(|line| line.strip_prefix("data: {"));
    let chunks: Vec<serde_json::Value> =
        data.filter_map(|line| serde_json::from_str(&format!("{{{line}")).ok()).collect();
    for (index, choice) in plain["choices"].as_array().unwrap().iter().enumerate() {
        let own = |chunk: &&serde_json::Value| chunk["choices"][0]["index"] == index;
        let frames: Vec<_> = chunks.iter().filter(own).collect();
        let last = frames.last().unwrap();
        assert_eq!(last["choices"][0]["text"], choice["text"]);
        assert_eq!(last["diffusion_meta"]["masks_left"], 0);
        let events: Vec<_> = frames
            .iter()
            .flat_map(|frame| frame["treasure"]["events"].as_array().unwrap())
            .collect();
        assert_eq!(events[0]["event"], "start");
        assert_eq!(events.last().unwrap()["event"], "end");
        let ids: std::collections::HashSet<_> =
            events.iter().filter_map(|event| event["id"].as_u64()).collect();
        let known = |event: &&&serde_json::Value| {
            event["parent"].as_u64().is_none_or(|parent| ids.contains(&parent))
        };
        assert_eq!(events.iter().filter(known).count(), events.len());
    }
    server.stop.notify_one();
    server.ended.await.unwrap().unwrap();
}
