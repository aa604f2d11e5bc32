//! `exec:COMMAND`: a local program as a reward, started once and kept.
//!
//! Each text goes to its standard input as one line `{"text": "…"}`; for each it prints one line with a
//! number (or with an object that has a `reward` or `score`). Whatever goes wrong — the program ends,
//! prints something else, a line too many or too few — is an error with the end of its standard error.
//! It ends with everything it started, in whatever way this process ends ([`group`]).

mod group;
mod program;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{Error, Interrupt, Result, TextReward, error::quoted};
use program::{Line, Program};

/// How long the first answer is watched for a second one.
const FIRST_GRACE: Duration = Duration::from_millis(100);
/// How long later answers are watched: a tenth of the time they took, within these.
const GRACE: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// A local program as a reward.
pub struct Exec {
    name: String,
    command: String,
    timeout: Duration,
    interrupt: Interrupt,
    program: Mutex<Option<Program>>,
}

/// Why a program gave no numbers.
enum Trouble {
    /// What it did.
    Wrong(String),
    /// It ended.
    Ended(String),
    /// The caller does not want to wait.
    Interrupted,
}

impl Exec {
    /// A reward called `name` by a shell command, which is started when the first text is scored. A line
    /// that takes longer than `timeout` is an error.
    pub fn new(name: impl Into<String>, command: impl Into<String>, timeout: Duration) -> Self {
        Self {
            name: name.into(),
            command: command.into(),
            timeout,
            interrupt: Interrupt::NEVER,
            program: Mutex::new(None),
        }
    }

    /// Stops waiting for the program when `interrupt` is raised.
    #[must_use]
    pub fn with_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    fn ask(&self, program: &mut Program, texts: &[&str]) -> Result<Vec<f64>, Trouble> {
        // A program that has just been started shows with one text whether it prints one line for each.
        let (first, rest) = match program.last {
            None => texts.split_at(texts.len().min(1)),
            Some(_) => (&[][..], texts),
        };
        if let Some(line) = program.surplus(Duration::ZERO) {
            return Err(surplus(program.last.as_deref(), &line));
        }
        let mut numbers = Vec::with_capacity(texts.len());
        for (part, first) in [(first, true), (rest, false)] {
            if part.is_empty() {
                continue;
            }
            let begin = Instant::now();
            let lines = part.iter().map(|text| json!({ "text": text }).to_string() + "\n");
            program.send(lines.collect());
            for text in part {
                numbers.push(self.number(program, text, numbers.len(), texts.len())?);
            }
            program.last = part.last().map(|text| text.to_string());
            let tenth = (begin.elapsed() / 10).clamp(GRACE[0], GRACE[1]);
            if let Some(line) = program.surplus(if first { FIRST_GRACE } else { tenth }) {
                return Err(surplus(program.last.as_deref(), &line));
            }
        }
        Ok(numbers)
    }

    fn number(
        &self,
        program: &mut Program,
        text: &str,
        before: usize,
        all: usize,
    ) -> Result<f64, Trouble> {
        let text = quoted(text);
        let so_far = match before {
            0 => String::new(),
            lines => format!(" (lines before: {lines} for {all} texts)"),
        };
        let line = match program.line(self.timeout, &self.interrupt) {
            Line::Text(line) => line,
            Line::Wrong(why) => return Err(Trouble::Wrong(format!("{why} for the text {text}"))),
            Line::Nothing => {
                let waited = self.timeout;
                let message =
                    format!("printed nothing within {waited:?} for the text {text}{so_far}");
                return Err(Trouble::Wrong(message));
            }
            Line::Ended => {
                let message = format!("ended before it answered for the text {text}{so_far}");
                return Err(Trouble::Ended(message));
            }
            Line::Interrupted => return Err(Trouble::Interrupted),
        };
        let number = line.parse().ok().or_else(|| {
            let value: Value = serde_json::from_str(&line).ok()?;
            ["reward", "score"].iter().find_map(|key| value.get(key)?.as_f64())
        });
        number.ok_or_else(|| {
            let line = quoted(&line);
            Trouble::Wrong(format!("expected a number for the text {text}, got {line}"))
        })
    }

    /// What went wrong, with the program's last words.
    fn failed(&self, mut program: Program, trouble: Trouble) -> Error {
        let (message, over) = match trouble {
            Trouble::Interrupted => return Error::Interrupted { name: self.name.clone() },
            Trouble::Wrong(message) => (message, false),
            Trouble::Ended(message) => (message, true),
        };
        let message = message + &program.last_words(over);
        Error::reward(&self.name, message).with_hint(
            "the program reads lines {\"text\": …} and prints one number per line, at once (flush)",
        )
    }
}

fn surplus(last: Option<&str>, line: &str) -> Trouble {
    let asked = match last {
        Some(text) => format!("after its answer for the text {}", quoted(text)),
        None => "before it was asked anything".into(),
    };
    Trouble::Wrong(format!("expected one line per text, got one more {asked}: {}", quoted(line)))
}

impl TextReward for Exec {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let mut held = self.program.lock().unwrap_or_else(PoisonError::into_inner);
        let mut program = match held.take() {
            Some(program) => program,
            None => Program::start(&self.command).map_err(|error| {
                Error::reward(&self.name, "cannot be started")
                    .with_source(error)
                    .with_hint("name a program that is there and may be run")
            })?,
        };
        match self.ask(&mut program, texts) {
            Ok(numbers) => {
                *held = Some(program);
                Ok(numbers)
            }
            Err(trouble) => Err(self.failed(program, trouble)),
        }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        let held = self.program.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = held.take() {
            program.finish();
        }
    }
}
