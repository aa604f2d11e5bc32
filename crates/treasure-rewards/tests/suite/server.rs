//! A small HTTP server inside the test process: it answers what a test tells it to, and remembers what it was asked.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;

/// What a server was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    pub accept_encoding: Option<String>,
    pub body: Value,
}

/// What it answers.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub pause: Duration,
    /// How much of the body is sent before the connection ends.
    pub cut: Option<usize>,
}

impl Reply {
    pub fn json(body: Value) -> Self {
        Self::text(200, body.to_string())
    }

    pub fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let (headers, body) = (Vec::new(), body.into());
        Self { status, headers, body, pause: Duration::ZERO, cut: None }
    }

    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn after(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
}

pub struct FakeServer {
    pub address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Answers each request with `answer`, which also gets the number of requests before it.
    pub fn start(answer: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let answer = Arc::new(answer);
        let (log, stopping) = (asked.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    break;
                }
                let (Ok(stream), log, answer) = (stream, log.clone(), answer.clone()) else {
                    continue;
                };
                std::thread::spawn(move || serve(stream, &log, answer.as_ref()));
            }
        });
        Self { address, asked, stop, thread: Some(thread) }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no test thread panicked").clone()
    }

    pub fn posted(&self) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.method == "POST").collect()
    }

    /// Stops listening: the next connection is refused.
    pub fn vanish(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(&self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.vanish();
    }
}

/// One request per connection, so that a server that vanished stays silent.
fn serve(stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked, usize) -> Reply) {
    let Some(asked) = read_request(&stream) else { return };
    let before = {
        let mut log = log.lock().expect("no test thread panicked");
        log.push(asked.clone());
        log.iter().filter(|earlier| earlier.method == asked.method).count() - 1
    };
    let reply = answer(&asked, before);
    std::thread::sleep(reply.pause);
    let mut head = format!(
        "HTTP/1.1 {} X\r\ncontent-length: {}\r\nconnection: close\r\n",
        reply.status,
        reply.body.len()
    );
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = &stream;
    let body = &reply.body[..reply.cut.unwrap_or(reply.body.len())];
    let _ = stream.write_all(&[head.as_bytes(), b"\r\n", body].concat());
}

fn read_request(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_string(), words.next()?.to_string());
    let (mut length, mut authorization, mut accept_encoding) = (0, None, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "accept-encoding" => accept_encoding = Some(value.trim().to_string()),
            "authorization" => authorization = Some(value.trim().to_string()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Asked { method, path, authorization, accept_encoding, body })
}
