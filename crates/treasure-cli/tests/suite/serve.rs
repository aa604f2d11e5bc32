//! `treasure serve` as a process: its address, an answer, and how it ends.
#![cfg(all(unix, feature = "server"))]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{golden, run, stderr};

struct Server {
    child: Child,
    host: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only a test that has failed leaves it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_treasure"))
            .args(["serve", "--port", "0", "--json", "--model"])
            .arg(format!("tiny={}", golden("mdlm")))
            .args(more)
            .env("HF_HUB_OFFLINE", "1")
            .env("HF_HOME", "/nonexistent")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let url = said["listening"].as_str().unwrap();
        let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let server = Self { child, host };
        let began = Instant::now();
        while server.get("/ready").0 != 200 {
            assert!(began.elapsed() < Duration::from_secs(60), "never ready");
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        )
        .unwrap();
        stream
    }

    /// The id that the answer to a request with such a header has.
    fn id_of(&self, header: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let line = "GET /v1/models HTTP/1.1";
        write!(stream, "{line}\r\nhost: {}\r\n{header}connection: close\r\n\r\n", self.host)
            .unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let id = said.lines().find_map(|line| line.strip_prefix("x-request-id: "));
        id.expect("an id").to_owned()
    }

    fn get(&self, path: &str) -> (u16, Value) {
        answer(self.send("GET", path, ""))
    }

    fn ask(&self, body: &Value) -> TcpStream {
        self.send("POST", "/v1/completions", &body.to_string())
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits for the end; the exit status and the log.
    fn end(&mut self) -> (Option<i32>, Vec<Value>) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        let status = self.child.wait().unwrap().code();
        let lines = log.lines().map(|line| serde_json::from_str(line).expect("a JSON line"));
        (status, lines.collect())
    }
}

fn answer(mut stream: TcpStream) -> (u16, Value) {
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").expect("a head and a body");
    (head[9..12].parse().unwrap(), serde_json::from_str(body).expect("JSON"))
}

fn completion(more: Value) -> Value {
    let mut body =
        json!({"prompt": "The lake", "max_tokens": 8, "treasure": {"reward": "length:5..9"}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn it_answers_and_ends_with_what_was_asked_answered() {
    let mut server = Server::start(&["--drain-seconds", "2", "--in-flight", "2"]);
    assert_eq!(server.get("/health"), (200, json!({"status": "ok"})));
    let (status, said) = answer(server.ask(&completion(json!({"seed": 3}))));
    assert_eq!(status, 200, "{said}");
    // A request's id is its client's, or one of the server's; the log has the same.
    let own = server.id_of("x-request-id: my-own_1.2\r\n");
    assert_eq!(own, "my-own_1.2");
    let ids = [own, server.id_of(""), server.id_of("x-request-id: not \"sane\"\r\n")];
    assert!(ids[1] != ids[2] && ids[1..].iter().all(|id| id.len() == 24), "{ids:?}");
    assert_eq!(said["model"], "tiny");
    assert_eq!(said["choices"][0]["treasure"]["plan"]["seed"], 3);

    // Two searches of minutes.
    let long = json!({"n": 2, "treasure": {
        "reward": "length:5..9", "method": "pg", "particles": 64, "iterations": 4096}});
    let waiting = server.ask(&completion(long));
    let began = Instant::now();
    while !running(&server) {
        assert!(began.elapsed() < Duration::from_secs(30), "never began");
        thread::sleep(Duration::from_millis(20));
    }
    let began = Instant::now();
    server.signal("-TERM");
    while server.get("/ready").0 == 200 {
        thread::sleep(Duration::from_millis(10));
    }
    let (status, said) = answer(server.ask(&completion(json!({}))));
    assert_eq!((status, &said["error"]["code"]), (503, &json!("draining")), "{said}");
    let (status, said) = answer(waiting);
    // Its time is over: the best so far.
    assert_eq!(status, 200, "{said}");
    for choice in said["choices"].as_array().unwrap() {
        assert_eq!(choice["treasure"]["stopped"], "interrupted", "{said}");
    }
    let (status, log) = server.end();
    assert_eq!(status, Some(0), "{log:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let events: Vec<&str> = log.iter().filter_map(|line| line["event"].as_str()).collect();
    // The one that came late is refused before the two are answered.
    let mut expected = vec!["listening", "ready"];
    expected.extend(["request"; 4]);
    expected.extend(["draining", "request", "request", "stopped"]);
    assert_eq!(events, expected, "{log:?}");
    let statuses: Vec<_> = log.iter().filter_map(|line| line["status"].as_u64()).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 503, 200]);
    let logged: Vec<_> = log.iter().filter_map(|line| line["id"].as_str()).collect();
    assert_eq!(logged[1..4], ids);
}

fn running(server: &Server) -> bool {
    let mut said = String::new();
    server.send("GET", "/metrics", "").read_to_string(&mut said).unwrap();
    said.lines().any(|line| {
        line.strip_prefix("treasure_searches_running ").is_some_and(|count| count.trim() != "0")
    })
}

#[test]
fn a_server_beyond_this_machine_needs_keys_or_a_word() {
    let said = stderr(&run(&["serve", "--host", "0.0.0.0", "--port", "0"], 2));
    assert!(said.contains("expected keys for an address beyond this machine"), "{said}");
    assert!(said.contains("hint: name a file of keys (--api-key-file)"), "{said}");
    let said = stderr(&run(&["serve", "--limit", "beam-widht=3", "--port", "0"], 2));
    assert!(said.contains("did you mean --beam-width?"), "{said}");
    let said = stderr(&run(&["serve", "--limit", "length", "--port", "0"], 2));
    assert!(said.contains("expected OPTION=NUMBER"), "{said}");
}
