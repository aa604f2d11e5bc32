//! A running program: lines go in, lines come out, and nothing that it does makes us wait beyond a limit.
//!
//! Its pipes have threads of their own, which nobody waits for: something that keeps a pipe open after the
//! program's end costs a thread, not the run.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::group::Group;
use crate::{Interrupt, error::quoted, interrupt::LOOK};

const LONGEST_LINE: u64 = 64 << 10;
const STDERR_TAIL: usize = 2 << 10;
/// How long a program may take to end by itself once its input has ended.
const FAREWELL: Duration = Duration::from_millis(200);

pub(super) struct Program {
    input: Option<Sender<String>>,
    lines: Receiver<Result<String, String>>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    stderr_reader: Option<JoinHandle<()>>,
    group: Group,
    /// The text it was asked about last; none yet if it has just been started.
    pub last: Option<String>,
}

/// What a wait for a line ended with.
pub(super) enum Line {
    Text(String),
    /// Something that is no line, and why.
    Wrong(String),
    Nothing,
    Ended,
    Interrupted,
}

impl Program {
    pub fn start(command: &str) -> io::Result<Self> {
        let mut shell = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
        shell.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(command);
        // Python holds back what it prints into a pipe, and a reward that prints nothing looks dead.
        shell.env("PYTHONUNBUFFERED", "1");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = Group::spawn(shell)?;
        let child = group.child();
        let (input, batches) = channel::<String>();
        if let Some(mut stdin) = child.stdin.take() {
            std::thread::spawn(move || {
                // A program that does not read shows in what it does not print.
                while let Ok(batch) = batches.recv() {
                    if stdin.write_all(batch.as_bytes()).and_then(|()| stdin.flush()).is_err() {
                        break;
                    }
                }
            });
        }
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
        Ok(Self { input: Some(input), lines, stderr, stderr_reader, group, last: None })
    }

    /// Hands over lines, beside whatever it prints: it may answer long before it has read everything.
    pub fn send(&self, lines: String) {
        if let Some(input) = &self.input {
            let _ = input.send(lines);
        }
    }

    /// Waits for the next line.
    pub fn line(&mut self, timeout: Duration, interrupt: &Interrupt) -> Line {
        let begin = Instant::now();
        let mut over = false;
        loop {
            if interrupt.is_raised() {
                return Line::Interrupted;
            }
            let left = timeout.saturating_sub(begin.elapsed());
            match self.lines.recv_timeout(left.min(LOOK)) {
                Ok(Ok(line)) => return Line::Text(line),
                Ok(Err(why)) => return Line::Wrong(why),
                Err(RecvTimeoutError::Disconnected) => return Line::Ended,
                // What it printed before its end is read first; whoever keeps its pipe open is not waited for.
                Err(RecvTimeoutError::Timeout) if over => return Line::Ended,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Line::Nothing,
                Err(RecvTimeoutError::Timeout) => over = self.group.ended().is_some(),
            }
        }
    }

    /// A line that it prints within `grace` though nobody asked for one.
    pub fn surplus(&mut self, grace: Duration) -> Option<String> {
        let line = self.lines.recv_timeout(grace).ok()?;
        Some(line.unwrap_or_else(|why| why))
    }

    /// How it ended, if it did, and the end of what it wrote to standard error.
    pub fn last_words(&mut self, over: bool) -> String {
        // Give it and the thread that reads its standard error a moment to finish.
        let patience = if over { 500 } else { 50 };
        let end = Instant::now() + Duration::from_millis(patience);
        let reading = |program: &Self| {
            program.stderr_reader.as_ref().is_some_and(|reader| !reader.is_finished())
        };
        while (self.group.ended().is_none() || reading(self)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = self.group.ended().map(|ended| format!("; {}", ended.words()));
        let tail: Vec<u8> = {
            let tail = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
            tail.iter().copied().collect()
        };
        let tail = String::from_utf8_lossy(&tail).trim().to_string();
        let said = if tail.is_empty() { String::new() } else { format!("; it said: {tail}") };
        ended.unwrap_or_default() + &said
    }

    /// Ends it in peace: its input ends, and it has a moment to end by itself.
    pub fn finish(mut self) {
        self.input = None;
        let end = Instant::now() + FAREWELL;
        while self.group.ended().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn next_line(reader: &mut impl BufRead) -> Option<Result<String, String>> {
    let mut line = Vec::new();
    let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
    let shown = |line: &[u8]| String::from_utf8_lossy(line).trim().to_string();
    match read {
        Ok(0) => None,
        Ok(_) if line.ends_with(b"\n") => Some(Ok(shown(&line))),
        Ok(_) if line.len() as u64 == LONGEST_LINE => {
            Some(Err(format!("printed a line longer than {LONGEST_LINE} bytes")))
        }
        // Half a number looks like a number.
        Ok(_) => Some(Err(format!("ended in the middle of the line {}", quoted(&shown(&line))))),
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
