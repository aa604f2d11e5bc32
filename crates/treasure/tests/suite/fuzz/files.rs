//! Files of rows and traces with lines lost, doubled, swapped, cut and changed: continued or refused.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};
use treasure::{Entry, Expected, Store, TraceFile};

use super::{Choices, Seen, fuzz};

fn row(index: u64, sample: u64) -> String {
    let plan = json!({"length": 8, "keys": 2});
    let (prompt, text) = (["a", "b"][index as usize % 2], "a text");
    json!({"prompt": prompt, "prompt_index": index, "sample": sample, "text": text, "plan": plan})
        .to_string()
}

fn trace(index: u64, sample: u64) -> Vec<String> {
    vec![
        json!({"schema": "treasure-trace", "version": 1}).to_string(),
        json!({"event": "sample", "prompt_index": index, "sample": sample}).to_string(),
        json!({"event": "step", "step": sample}).to_string(),
        json!({"event": "end", "tokens": [1, 2]}).to_string(),
    ]
}

/// Lines with a slip or several.
fn slip(mut lines: Vec<String>, choices: &mut Choices<'_>) -> Vec<u8> {
    for _ in 0..choices.below(4) {
        let (at, other) = (choices.below(lines.len().max(1)), choices.below(lines.len().max(1)));
        if lines.is_empty() {
            break;
        }
        match choices.below(6) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(other, lines[at].clone()),
            2 => lines.swap(at, other),
            3 => lines.insert(at, choices.text(5)),
            4 => {
                let mut value: Value = serde_json::from_str(&lines[at]).unwrap_or_default();
                if let Some((_, field)) = value.as_object_mut().and_then(|object| {
                    let count = object.len().max(1);
                    object.iter_mut().nth(choices.below(count))
                }) {
                    *field = match choices.below(4) {
                        0 => json!(choices.number()),
                        1 => json!(choices.text(4)),
                        2 => json!({"length": choices.below(12)}),
                        _ => Value::Null,
                    };
                }
                lines[at] = value.to_string();
            }
            _ => {
                let keep = choices.below(lines[at].len().max(1));
                lines[at] = String::from_utf8_lossy(&lines[at].as_bytes()[..keep]).into_owned();
            }
        }
    }
    let mut bytes: Vec<u8> =
        lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
    if choices.chance(100) {
        bytes.truncate(choices.below(bytes.len().max(1)));
    }
    if choices.chance(20) && !bytes.is_empty() {
        let at = choices.below(bytes.len());
        bytes[at] = choices.byte();
    }
    bytes
}

/// A folder in memory, where there is one.
pub fn folder() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.unwrap()
}

#[test]
fn files_of_rows_and_traces_with_any_slip_are_continued_or_refused() {
    let folder = folder();
    let (rows, traces) = (folder.path().join("rows.jsonl"), folder.path().join("trace.jsonl"));
    let plan = json!({"length": 8, "keys": 2});
    let expected = Expected { prompts: &["a", "b"], plans: &[&plan, &plan] };
    fuzz("files", Duration::from_secs(5), |choices| {
        let order = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let count = choices.below(5);
        let lines = order[..count].iter().map(|&(index, sample)| row(index, sample)).collect();
        let told = order[..choices.below(5)].iter();
        let told = told.flat_map(|&(index, sample)| trace(index, sample)).collect();
        let before = slip(lines, choices);
        std::fs::write(&rows, &before).unwrap();
        std::fs::write(&traces, slip(told, choices)).unwrap();
        let store = match Store::resume(&rows, expected) {
            Ok(store) => store,
            Err(error) => {
                assert_eq!(std::fs::read(&rows).unwrap(), before, "a refused file stays");
                return Seen::refused(error.chain().join(": "));
            }
        };
        let (there, recovered) = (store.rows().to_vec(), store.recovered());
        drop(store);
        let trace = TraceFile::resume(&traces, &there).unwrap();
        let repaired = trace.repaired();
        assert_eq!(repaired.kept + repaired.missing, there.len());
        drop(trace);
        // What was repaired needs no repair.
        if rows.exists() {
            let again = Store::resume(&rows, expected).unwrap();
            assert_eq!((again.rows(), again.recovered()), (&there[..], 0));
        }
        let again = TraceFile::resume(&traces, &there).unwrap().repaired();
        assert_eq!((again.kept, again.dropped), (repaired.kept, 0));
        let (cut, kept) = (recovered > 0, repaired.kept);
        let shape = ["none", "one", "two", "three", "four", "more"];
        let dropped = repaired.dropped > 0;
        Seen::deep(format!(
            "{} rows {} traces cut {cut} {dropped}",
            shape[there.len().min(5)],
            shape[kept.min(5)]
        ))
    });
}

#[test]
fn prompt_files_with_any_slip_are_read_or_refused_with_their_line() {
    let usual = [
        json!({"prompt": "a", "id": 7}),
        json!({"context_string": "b"}),
        json!({"messages": [{"role": "user", "content": "c"}], "note": null}),
        json!({"messages": [{"role": "system", "content": "d"}, {"role": "user", "content": "e"}]}),
        json!({"prompt": "f", "text": "g"}),
        json!({"messages": "h"}),
        json!({"other": 1}),
    ];
    fuzz("prompts", Duration::from_secs(5), |choices| {
        let lines = (0..choices.below(5)).map(|_| choices.pick(&usual).to_string()).collect();
        let bytes = slip(lines, choices);
        let text = String::from_utf8_lossy(&bytes);
        match Entry::read_lines(&text, "prompts.jsonl") {
            Ok(entries) => {
                let filled = text.lines().filter(|line| !line.trim().is_empty()).count();
                assert_eq!(entries.len(), filled, "nothing is skipped");
                Seen::deep("entry ".repeat(entries.len()))
            }
            Err(error) => {
                let told = error.chain().join(": ");
                assert!(told.contains("prompts.jsonl"), "{told}");
                Seen::refused(told)
            }
        }
    });
}
