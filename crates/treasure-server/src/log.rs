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
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};

/// Lines that wait for a slow reader of stderr.
const WAITING: usize = 1_024;

/// Where lines go.
#[derive(Clone)]
pub(crate) struct Log {
    lines: SyncSender<String>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// A log on stderr, or nowhere.
    pub fn new(quiet: bool) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        thread::Builder::new().name("log".into()).spawn(move || {
            while let Ok(line) = waiting.recv() {
                if !quiet {
                    let _ = writeln!(std::io::stderr().lock(), "{line}");
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
        if self.lines.try_send(Value::Object(line).to_string()).is_err() {
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }
}
