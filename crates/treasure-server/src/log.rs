//! The log: one JSON object a line on stderr, written by a thread of its own.
//!
//! Guarantee: nobody waits for it; lines that do not fit are dropped and counted in the next one.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};

/// Lines that wait for a slow reader of stderr.
const WAITING: usize = 1_024;
/// How long the end of a process waits for them.
const PATIENCE: Duration = Duration::from_millis(500);

enum Entry {
    Line(String),
    /// Answered once all before it is written.
    Flush(SyncSender<()>),
}

/// Where lines go.
#[derive(Clone)]
pub(crate) struct Log {
    lines: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// A log on stderr, or nowhere.
    pub fn new(quiet: bool) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        thread::Builder::new().name("log".into()).spawn(move || {
            while let Ok(entry) = waiting.recv() {
                match entry {
                    Entry::Line(line) if !quiet => {
                        let _ = writeln!(std::io::stderr().lock(), "{line}");
                    }
                    Entry::Line(_) => {}
                    Entry::Flush(done) => drop(done.send(())),
                }
            }
        })?;
        Ok(Self { lines, dropped: Arc::default() })
    }

    /// Writes an event with its fields.
    pub fn say(&self, event: &str, fields: Value) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        let mut line = Map::from_iter([
            ("time".to_owned(), json!((now * 1e3).round() / 1e3)),
            ("event".to_owned(), event.into()),
        ]);
        if let Value::Object(fields) = fields {
            line.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            line.insert("lines_dropped".into(), dropped.into());
        }
        if self.lines.try_send(Entry::Line(Value::Object(line).to_string())).is_err() {
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }

    /// Waits until what was said is written, though not for a reader that is stuck.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.lines.try_send(Entry::Flush(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}
