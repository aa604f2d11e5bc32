//! Many shard files → one sorted file, the same at any sharding.
//!
//! Guarantee: `samples.jsonl` is a function of the plan alone; what differs between runs, the seconds,
//! is in `timings.jsonl`. Missing and double rows are named, rows of other plans are refused, and
//! nothing is written unless all is well.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::{Manifest, read_rows, shard_files};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    error::at,
    row::{Row, Timing},
};

/// What a merge made.
#[derive(Clone, Debug, Serialize)]
pub struct Merged {
    /// The sorted rows.
    pub samples: PathBuf,
    /// Their seconds.
    pub timings: PathBuf,
    /// How many.
    pub rows: usize,
    /// From how many shard files.
    pub files: usize,
}

/// Merges the shards of one or several folders into `out` (which may be one of them).
pub fn merge(directories: &[PathBuf], out: &Path) -> Result<Merged> {
    let first = directories.first().ok_or_else(|| Error::Invalid {
        what: "eval merge".into(),
        expected: "at least one folder".into(),
        got: "none".into(),
    })?;
    let manifest = Manifest::read(first)?;
    let fingerprint = manifest.fingerprint();
    let mut found: BTreeMap<String, (PathBuf, Row)> = BTreeMap::new();
    let mut double = Vec::new();
    let mut files = 0;
    for directory in directories {
        let other = Manifest::read(directory)?;
        if other.fingerprint() != fingerprint {
            return Err(Error::OtherPlan {
                path: directory.clone(),
                expected: fingerprint,
                found: other.fingerprint(),
                difference: manifest.difference(&other),
            });
        }
        for file in shard_files(directory)? {
            files += 1;
            for row in read_rows(&file, &fingerprint)? {
                if let Some((earlier, _)) = found.get(&row.id) {
                    double.push(format!(
                        "{} in {} and {}",
                        row.id,
                        earlier.display(),
                        file.display()
                    ));
                } else {
                    found.insert(row.id.clone(), (file.clone(), row));
                }
            }
        }
    }
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    for cell in manifest.plan.cells() {
        match found.remove(&cell.id) {
            Some((_, row)) => rows.push(row),
            None => missing.push(cell.id),
        }
    }
    let unknown: Vec<String> = found.into_keys().collect();
    let complaints = [("missing", missing), ("double", double), ("not in the plan", unknown)];
    let message: Vec<String> = complaints
        .iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(what, ids)| list(what, ids))
        .collect();
    if !message.is_empty() {
        return Err(Error::Merge { path: first.clone(), message: message.join("; ") });
    }
    fs::create_dir_all(out).map_err(at(out, "creating"))?;
    manifest.create_or_match(out)?;
    let samples = out.join("samples.jsonl");
    let timings = out.join("timings.jsonl");
    write_whole(&samples, rows.iter().map(|row| json(&row.canonical())))?;
    write_whole(
        &timings,
        rows.iter().map(|row| json(&Timed { id: row.id.clone(), timing: row.timing.clone() })),
    )?;
    Ok(Merged { samples, timings, rows: rows.len(), files })
}

/// The rows of a folder that holds only what a merge made, with their seconds.
pub(super) fn read_merged(directory: &Path, fingerprint: &str) -> Result<Vec<Row>> {
    let samples = directory.join("samples.jsonl");
    if !samples.exists() {
        return Ok(Vec::new());
    }
    let mut rows = read_rows(&samples, fingerprint)?;
    let path = directory.join("timings.jsonl");
    let text = fs::read_to_string(&path).map_err(at(&path, "reading"))?;
    let mut timings = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let timed: Timed = serde_json::from_str(line).map_err(|error| Error::Row {
            path: path.clone(),
            line: index + 1,
            message: error.to_string(),
        })?;
        timings.insert(timed.id, timed.timing);
    }
    for row in &mut rows {
        row.timing = timings.remove(&row.id).flatten();
    }
    Ok(rows)
}

/// A line of `timings.jsonl`.
#[derive(Serialize, Deserialize)]
struct Timed {
    id: String,
    timing: Option<Timing>,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a row has only string keys")
}

fn list(what: &str, ids: &[String]) -> String {
    let shown = ids.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = ids.len().saturating_sub(5);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} {what}: {shown}{rest}", ids.len())
}

/// Writes lines beside the target and renames, so that a reader never sees half a file.
pub(crate) fn write_whole(
    path: &Path,
    lines: impl Iterator<Item = impl std::fmt::Display>,
) -> Result<()> {
    let draft = path.with_extension("draft");
    let write = || {
        let mut file = std::io::BufWriter::new(fs::File::create(&draft)?);
        for line in lines {
            writeln!(file, "{line}")?;
        }
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(at(path, "writing"))
}
