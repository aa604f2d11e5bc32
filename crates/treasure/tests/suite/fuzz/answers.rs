//! Servers that answer anything: numbers within what was promised, or an error that names the server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{Choices, Seen, fuzz, toy};

/// What the server says next: a status, headers and a body.
type Script = Arc<Mutex<(u16, String, Vec<u8>)>>;

fn serve(stream: TcpStream, script: &Script) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let (status, headers, body) = script.lock().ok()?.clone();
        let head =
            format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), &body].concat()).ok()?;
    }
}

/// A server on this machine that says what the script says.
fn server(script: Script) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = script.clone();
            std::thread::spawn(move || serve(stream, &script));
        }
    });
    address
}

fn number(choices: &mut Choices<'_>) -> Value {
    match choices.below(6) {
        0 => json!(choices.float()),
        1 => json!(choices.number()),
        2 => Value::Null,
        3 => json!(choices.text(3)),
        _ => json!(-(choices.below(30) as f64) / 10.0),
    }
}

fn probability(choices: &mut Choices<'_>) -> Value {
    if choices.chance(60) { number(choices) } else { json!(choices.below(11) as f64 / 10.0) }
}

/// An answer in a server's own form, for two texts or for another number of them.
fn body(kind: &str, choices: &mut Choices<'_>) -> Value {
    let rows = if choices.chance(40) { choices.below(5) } else { 2 };
    let mut rows_of = |make: &dyn Fn(&mut Choices<'_>) -> Value| -> Vec<Value> {
        (0..rows).map(|_| make(choices)).collect()
    };
    match kind {
        "reward" => json!({"rewards": rows_of(&number)}),
        "tei" => Value::Array(rows_of(&|choices| {
            json!([{"label": "good", "score": probability(choices)},
                   {"label": "bad", "score": probability(choices)}])
        })),
        "vllm" | "sglang" => json!({"data": rows_of(&|choices| {
            let probs = [probability(choices), probability(choices)];
            let label = *choices.pick(&["good", "good", "bad"]);
            match choices.chance(30) {
                true => json!({"index": choices.below(3), "probs": [number(choices)], "num_classes": 1}),
                false => json!({"index": choices.below(3), "label": label, "probs": probs, "num_classes": 2}),
            }
        })}),
        "vllm/score" => json!({"data": rows_of(&|choices| {
            json!({"index": choices.below(3), "score": number(choices)})
        })}),
        "sglang/score" => json!({"scores": rows_of(&|choices| {
            json!([probability(choices), probability(choices)])
        })}),
        "sglang/generate" => Value::Array(rows_of(&|choices| {
            json!({"text": "a", "meta_info": {
                "input_token_logprobs": [[null, 1], [number(choices), 2], [number(choices), 3]]}})
        })),
        "completions?prompt_logprobs" => json!({"choices": rows_of(&|choices| {
            let entry = |choices: &mut Choices<'_>| {
                json!({"5": {"logprob": number(choices), "rank": choices.below(3)}, "6": {"logprob": -9.0}})
            };
            json!({"index": choices.below(3), "text": "a", "prompt_logprobs": [null, entry(choices), entry(choices)]})
        })}),
        _ => json!({"choices": rows_of(&|choices| {
            json!({"index": choices.below(3), "text": "a b", "logprobs": {
                "token_logprobs": [null, number(choices), number(choices)],
                "tokens": ["a", " b", choices.text(2)], "text_offset": [0, 1, choices.below(9)]}})
        })}),
    }
}

#[test]
fn servers_that_answer_anything_give_numbers_or_errors() {
    let script: Script = Arc::new(Mutex::new((200, String::new(), Vec::new())));
    let address = server(script.clone());
    let session = toy::session();
    let count = AtomicU64::new(0);
    fuzz("answers", Duration::from_secs(10), |choices| {
        // A kind, how it is asked for, and whether a label or a query is named.
        let (kind, path, labels) = *choices.pick(&[
            ("reward", "reward+", &[""][..]),
            ("tei", "tei+", &["#good", "#bad", ""]),
            ("vllm", "vllm+", &["#good", "#1", "#other", ""]),
            ("completions", "completions+", &[""]),
            ("sglang", "sglang+", &["#good", "#0"]),
            ("vllm/score", "vllm+/score", &["#query", ""]),
            ("sglang/score", "sglang+/v1/score?labels=4,5", &["#query"]),
            ("sglang/generate", "sglang+/generate", &[""]),
            ("completions?prompt_logprobs", "completions+/v1?prompt_logprobs=0", &[""]),
        ]);
        let label = *choices.pick(labels);
        let prefix =
            if choices.chance(40) { *choices.pick(&["prob:", "accuracy:", "raw:"]) } else { "" };
        let mut bytes = body(kind, choices).to_string().into_bytes();
        if choices.chance(40) && !bytes.is_empty() {
            let at = choices.below(bytes.len());
            bytes[at] = choices.byte();
        }
        if choices.chance(10) {
            bytes.truncate(choices.below(bytes.len().max(1)));
        }
        // What asks for patience would take it: 429 and 5xx are retried after a pause.
        let status =
            if choices.chance(10) { *choices.pick(&[400, 401, 404, 422, 302]) } else { 200 };
        let header = match choices.below(24) {
            0 => "content-encoding: gzip\r\n",
            1 => "server: llama.cpp\r\n",
            _ => "",
        };
        *script.lock().unwrap() = (status, header.into(), bytes);
        let (protocol, path) = path.split_once('+').unwrap();
        let spec = format!("{prefix}{protocol}+http://{address}{path}{label}");
        // Texts that nobody has asked about yet.
        let n = count.fetch_add(1, Ordering::Relaxed);
        let texts = [format!("text {n} a"), format!("text {n} b")];
        match session.score(&spec, &texts.each_ref().map(String::as_str)) {
            Ok(scored) => {
                // A reward model and a pair of texts have numbers of any size, probabilities do not.
                let any = matches!(kind, "reward" | "vllm/score")
                    || (label.is_empty() && prefix.is_empty());
                let highest = match (
                    any && !kind.starts_with("completions") && kind != "sglang/generate",
                    prefix,
                ) {
                    (true, _) | (_, "raw:") => f64::MAX,
                    (_, "prob:" | "accuracy:") => 1.0 + 1e-6,
                    _ => 1e-6,
                };
                for scored in scored {
                    assert!(
                        scored.reward.is_finite() && scored.reward <= highest,
                        "{spec} {scored:?}"
                    );
                }
                Seen::deep(format!("numbers of {kind}"))
            }
            Err(error) => {
                Seen::refused(error.chain().join(": ").replace(&address.to_string(), "server"))
            }
        }
    });
}
