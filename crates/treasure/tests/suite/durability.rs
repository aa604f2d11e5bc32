//! Rows and traces survive every crash and every failing write: each crash point is tried, not a sample.

use std::{
    io::{self, Write},
    path::Path,
};

use serde_json::{Value, json};
use treasure::{Disk, Expected, Growing, Hint as _, Identity, Store, TraceFile};

const JOBS: [Identity; 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];
const PROMPTS: [&str; 2] = ["ä", "b"];

fn plan() -> Value {
    json!({"length": 8})
}

fn row((index, sample): Identity) -> String {
    let prompt = PROMPTS[index as usize];
    let text = format!("{prompt} é{sample}");
    json!({"prompt": prompt, "prompt_index": index, "sample": sample, "text": text, "plan": plan()})
        .to_string()
}

fn trace((index, sample): Identity) -> Vec<u8> {
    let lines = [
        json!({"schema": "treasure-trace", "version": 1}),
        json!({"event": "sample", "prompt_index": index, "sample": sample, "prompt": "ä"}),
        json!({"event": "end", "tokens": [sample], "reward": 0.5}),
        json!({"event": "tokens", "of": "the vocabulary"}),
    ];
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

/// What an uninterrupted run writes, in order: to the trace (true) or to the rows.
fn writes() -> Vec<(bool, Vec<u8>)> {
    let both = |job| [(true, trace(job)), (false, format!("{}\n", row(job)).into_bytes())];
    JOBS.into_iter().flat_map(both).collect()
}

/// The two files after so many bytes of all that is written.
fn after(bytes: usize) -> [Vec<u8>; 2] {
    let (mut rows, mut traces, mut left) = (Vec::new(), Vec::new(), bytes);
    for (is_trace, piece) in writes() {
        let part = &piece[..left.min(piece.len())];
        if is_trace { &mut traces } else { &mut rows }.extend(part);
        left -= part.len();
    }
    [rows, traces]
}

/// Opens both files as `--resume` does and makes what is missing.
fn resume(rows: &Path, traces: &Path) {
    let plan = plan();
    let expected = Expected { prompts: &PROMPTS, plans: &[&plan, &plan] };
    let mut store = Store::resume(rows, expected).unwrap();
    let mut told = TraceFile::resume(traces, store.rows()).unwrap();
    for job in JOBS {
        if !store.has(job) {
            told.write(&trace(job)).unwrap();
            store.append(job, &row(job)).unwrap();
        }
    }
}

#[test]
fn after_a_crash_at_any_byte_of_any_write_resuming_gives_the_bytes_of_an_uninterrupted_run() {
    let folder = tempfile::tempdir().unwrap();
    let (rows, traces) = (folder.path().join("rows.jsonl"), folder.path().join("trace.jsonl"));
    let all: usize = writes().iter().map(|(_, piece)| piece.len()).sum();
    let whole = after(all);
    for crash in 0..=all {
        let [left_rows, left_traces] = after(crash);
        std::fs::write(&rows, left_rows).unwrap();
        std::fs::write(&traces, left_traces).unwrap();
        resume(&rows, &traces);
        let found = [std::fs::read(&rows).unwrap(), std::fs::read(&traces).unwrap()];
        assert_eq!(found, whole, "crash after {crash} of {all} bytes");
    }
}

#[test]
fn a_crash_while_resuming_is_a_crash_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let (rows, traces) = (folder.path().join("rows.jsonl"), folder.path().join("trace.jsonl"));
    let all: usize = writes().iter().map(|(_, piece)| piece.len()).sum();
    let (plan, whole) = (plan(), after(all));
    let expected = Expected { prompts: &PROMPTS, plans: &[&plan, &plan] };
    for crash in (0..=all).step_by(7) {
        let [left_rows, left_traces] = after(crash);
        std::fs::write(&rows, left_rows).unwrap();
        std::fs::write(&traces, left_traces).unwrap();
        // The rows are repaired, the traces are not; then the power fails.
        let store = Store::resume(&rows, expected).unwrap();
        let there = store.rows().len();
        drop(store);
        assert_eq!(std::fs::read_to_string(&rows).unwrap_or_default().lines().count(), there);
        resume(&rows, &traces);
        let found = [std::fs::read(&rows).unwrap(), std::fs::read(&traces).unwrap()];
        assert_eq!(found, whole, "crash after {crash} bytes");
    }
}

#[test]
fn a_file_that_is_left_can_be_opened_again_while_a_starting_program_still_has_a_copy_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let (file, _) = Growing::open(&path).unwrap();
    // What a child has between fork and exec.
    let copy = file.disk().try_clone().unwrap();
    assert!(Growing::open(&path).is_err(), "two writers");
    drop(file);
    assert!(Growing::open(&path).is_ok(), "the lock outlived its file");
    drop(copy);
}

/// A disk that takes a few bytes at a time, is interrupted now and then, and is full at some point.
#[derive(Default)]
struct Poor {
    bytes: Vec<u8>,
    room: usize,
    calls: usize,
    /// Whether even cutting back fails.
    stuck: bool,
}

impl Write for Poor {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let taken = data.len().min(5).min(self.room - self.bytes.len());
        if taken == 0 && !data.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend(&data[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for Poor {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        if self.stuck {
            return Err(io::ErrorKind::Other.into());
        }
        self.bytes.truncate(length as usize);
        Ok(())
    }
}

#[test]
fn short_and_interrupted_writes_make_whole_rows_and_a_full_disk_leaves_whole_rows() {
    let lines: Vec<String> = JOBS.into_iter().map(|job| row(job) + "\n").collect();
    let all: usize = lines.iter().map(String::len).sum();
    for room in 0..=all {
        let disk = Poor { room, ..Poor::default() };
        let mut store = Store::on(Growing::new(Path::new("rows.jsonl"), disk, 0));
        let written = JOBS.into_iter().map(|job| store.append(job, &row(job)));
        let failed = written.take_while(Result::is_ok).count();
        let whole = lines.iter().scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        });
        let fits = whole.take_while(|end| *end <= room).count();
        assert_eq!(failed, fits, "room for {room} bytes");
        if fits < JOBS.len() {
            let error = store.append(JOBS[fits], &row(JOBS[fits])).unwrap_err();
            assert!(error.hint().unwrap().contains("make room and resume"), "{error}");
        }
        assert_eq!(store.file().disk().bytes, lines[..fits].concat().as_bytes(), "{room}");
    }
}

#[test]
fn a_file_that_cannot_even_be_cut_back_takes_no_more() {
    let disk = Poor { room: 20, stuck: true, ..Poor::default() };
    let mut file = Growing::new(Path::new("rows.jsonl"), disk, 0);
    assert!(file.append(&[b'x'; 30]).is_err());
    let error = file.append(b"y").unwrap_err();
    assert!(error.to_string().contains("could not be taken back"), "{error}");
    assert!(!file.disk().bytes.contains(&b'y'));
}

#[test]
fn a_trace_of_a_row_that_is_not_there_is_cut_off_and_rows_without_one_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let traces: Vec<Vec<u8>> = JOBS.into_iter().map(trace).collect();
    std::fs::write(&path, traces[1..].concat()).unwrap();
    let repaired = TraceFile::resume(&path, &JOBS[..3]).unwrap().repaired();
    assert_eq!((repaired.kept, repaired.dropped, repaired.missing), (2, traces[3].len(), 1));
    assert_eq!(std::fs::read(&path).unwrap(), traces[1..3].concat());
}

#[cfg(unix)]
#[test]
fn what_is_no_ordinary_file_is_refused_by_name_and_kind() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let plan = plan();
    let expected = Expected { prompts: &PROMPTS, plans: &[&plan, &plan] };
    let places = [
        (pipe.as_path(), "a pipe"),
        (Path::new("/dev/full"), "a device"),
        (folder.path(), "a folder"),
    ];
    for (path, kind) in places {
        for error in [Store::create(path).unwrap_err(), Store::resume(path, expected).unwrap_err()]
        {
            let message = error.to_string();
            let named = message.starts_with(&path.display().to_string());
            assert!(named && message.ends_with(&format!("got {kind}")), "{message}");
        }
    }
}
