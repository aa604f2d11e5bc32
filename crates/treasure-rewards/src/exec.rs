//! `exec:COMMAND`: a local program as a reward, started once and kept.
//!
//! Each text goes to its standard input as one line `{"text": "…"}`; for each it prints one line with a
//! number (or with an object that has a `reward` or `score`). Whatever goes wrong — the program ends,
//! prints something else, prints nothing — is an error with the end of its standard error.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{Error, Result, TextReward, error::quoted};

const LONGEST_LINE: u64 = 64 << 10;
const STDERR_TAIL: usize = 2 << 10;

/// A local program as a reward.
pub struct Exec {
    name: String,
    command: String,
    timeout: Duration,
    program: Mutex<Option<Program>>,
}

struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Result<String, String>>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    stderr_reader: Option<std::thread::JoinHandle<()>>,
}

impl Exec {
    /// A reward called `name` by a shell command, which is started when the first text is scored. A line
    /// that takes longer than `timeout` is an error.
    pub fn new(name: impl Into<String>, command: impl Into<String>, timeout: Duration) -> Self {
        Self { name: name.into(), command: command.into(), timeout, program: Mutex::new(None) }
    }

    fn start(&self) -> Result<Program> {
        let mut command = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
        command.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(&self.command);
        // Python holds back what it prints into a pipe, and a reward that prints nothing looks dead.
        command.env("PYTHONUNBUFFERED", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| Error::reward(&self.name, "cannot be started").with_source(error))?;
        let stdin = child.stdin.take();
        let (sender, lines) = sync_channel(1024);
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stdout);
                while let Some(line) = next_line(&mut reader) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let stderr_reader = child.stderr.take().map(|pipe| {
            let tail = stderr.clone();
            std::thread::spawn(move || keep_tail(pipe, &tail))
        });
        Ok(Program { child, stdin, lines, stderr, stderr_reader })
    }

    fn ask(&self, program: &mut Program, texts: &[&str]) -> Result<Vec<f64>, String> {
        if let Ok(line) = program.lines.try_recv() {
            let line = line.unwrap_or_else(|error| error);
            return Err(format!("printed more than one line per text: {}", quoted(&line)));
        }
        let Program { child, stdin, lines, .. } = program;
        let mut input = String::new();
        for text in texts {
            input.push_str(&json!({ "text": text }).to_string());
            input.push('\n');
        }
        std::thread::scope(|scope| {
            // Written beside reading: a program may answer long before it has read everything.
            scope.spawn(move || {
                if let Some(stdin) = stdin {
                    // A program that is gone shows in what it does not print.
                    let _ = stdin.write_all(input.as_bytes()).and_then(|()| stdin.flush());
                }
            });
            let numbers: Result<Vec<f64>, String> =
                texts.iter().map(|text| next_number(lines, self.timeout, text)).collect();
            if numbers.is_err() {
                let _ = child.kill(); // Unblocks the writer.
            }
            numbers
        })
    }
}

fn next_line(reader: &mut impl BufRead) -> Option<Result<String, String>> {
    let mut line = Vec::new();
    match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
        Ok(0) => None,
        Ok(_) if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") => {
            Some(Err(format!("printed a line longer than {LONGEST_LINE} bytes")))
        }
        Ok(_) => Some(Ok(String::from_utf8_lossy(&line).trim().to_string())),
        Err(error) => Some(Err(format!("its output cannot be read: {error}"))),
    }
}

fn keep_tail(mut pipe: impl Read, tail: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(&buffer[..count]);
        let surplus = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..surplus);
    }
}

fn next_number(
    lines: &Receiver<Result<String, String>>,
    timeout: Duration,
    text: &str,
) -> Result<f64, String> {
    let line = match lines.recv_timeout(timeout) {
        Ok(line) => line?,
        Err(RecvTimeoutError::Timeout) => {
            return Err(format!(
                "printed nothing within {timeout:?} for the text {}",
                quoted(text)
            ));
        }
        Err(RecvTimeoutError::Disconnected) => {
            return Err(format!("ended before it answered for the text {}", quoted(text)));
        }
    };
    let number = line.parse().ok().or_else(|| {
        let value: Value = serde_json::from_str(&line).ok()?;
        ["reward", "score"].iter().find_map(|key| value.get(key)?.as_f64())
    });
    number.ok_or_else(|| {
        format!("expected a number for the text {}, got {}", quoted(text), quoted(&line))
    })
}

impl Program {
    /// How it ended, if it did, and the end of what it wrote to standard error.
    fn last_words(&mut self) -> String {
        // Give the program and the thread that reads its standard error a moment to finish.
        let deadline = Instant::now() + Duration::from_millis(500);
        let mut status = None;
        let reading = |program: &Self| {
            program.stderr_reader.as_ref().is_some_and(|reader| !reader.is_finished())
        };
        while (status.is_none() || reading(self)) && Instant::now() < deadline {
            status = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(5));
        }
        let tail = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let tail: Vec<u8> = tail.iter().copied().collect();
        let tail = String::from_utf8_lossy(&tail).trim().to_string();
        let ended =
            status.and_then(|status| status.code()).map(|code| format!("; exit code {code}"));
        let said = if tail.is_empty() { String::new() } else { format!("; it said: {tail}") };
        ended.unwrap_or_default() + &said
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + Duration::from_millis(200);
        while Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl TextReward for Exec {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let mut held = self.program.lock().unwrap_or_else(PoisonError::into_inner);
        let mut program = match held.take() {
            Some(program) => program,
            None => self.start()?,
        };
        match self.ask(&mut program, texts) {
            Ok(numbers) => {
                *held = Some(program);
                Ok(numbers)
            }
            Err(message) => {
                let message = format!("{message}{}", program.last_words());
                Err(Error::reward(&self.name, message).with_hint(
                    "the program reads lines {\"text\": …} and prints one number per line, at once (flush)",
                ))
            }
        }
    }
}
