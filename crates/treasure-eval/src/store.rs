//! The run store: a folder with a manifest and append-only JSON Lines.
//!
//! Guarantees: a finished sample is on disk before the next begins; a kill at any moment loses at most
//! the sample in flight; no sample is computed twice; results of different plans never mix; two
//! processes never write one file.
//!
//! ```text
//! DIR/manifest.json           the plan, versions, hashes of models and data
//! DIR/shard-0-of-2.jsonl      finished rows, in order of completion, with timings
//! DIR/traces/ID.jsonl         search trees of a few samples
//! DIR/samples.jsonl           after merge: rows sorted by the plan's order, without timings
//! DIR/timings.jsonl           after merge: seconds of each row
//! ```

mod appender;
mod hashes;
mod manifest;
mod merge;
mod reuse;

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

pub use appender::{Appender, Recovery};
pub use hashes::hashes;
pub use manifest::{Manifest, ModelHash, hash_directory};
pub(crate) use merge::write_whole;
pub use merge::{Merged, merge};
pub use reuse::{Reusable, reusable};

use crate::{Error, Result, error::at, row::Row, shard::Shard};

/// The file of a shard.
pub fn shard_path(directory: &Path, shard: Shard) -> PathBuf {
    directory.join(format!("shard-{}-of-{}.jsonl", shard.index, shard.count))
}

/// An open store, ready to append.
#[derive(Debug)]
pub struct Store {
    appender: Appender,
    finished: HashSet<String>,
    fingerprint: String,
}

impl Store {
    /// Opens a shard of a run. Without `resume` the folder may not hold samples yet.
    ///
    /// What was repaired is told through `say`.
    pub fn open(
        directory: &Path,
        manifest: &Manifest,
        shard: Shard,
        resume: bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        fs::create_dir_all(directory).map_err(at(directory, "creating"))?;
        manifest.create_or_match(directory)?;
        let path = shard_path(directory, shard);
        let fingerprint = manifest.fingerprint();
        let appender = Appender::open(&path, &fingerprint)?;
        match appender.recovery() {
            Recovery::Clean => {}
            Recovery::Dropped { bytes } => say(&format!(
                "{}: dropped an unfinished last line of {bytes} bytes; its sample runs again",
                path.display()
            )),
            Recovery::Completed => {
                say(&format!("{}: the last row lacked its line end; kept", path.display()));
            }
        }
        let mut finished: HashSet<String> = appender.ids().iter().cloned().collect();
        if !resume && !finished.is_empty() {
            return Err(Error::NotEmpty { path: path.clone(), samples: finished.len() });
        }
        // Rows of other shardings of the same run count as done, and are only read.
        for other in shard_files(directory)? {
            if other != path {
                let rows = read_rows(&other, &fingerprint)?;
                finished.extend(rows.into_iter().map(|row| row.id));
            }
        }
        Ok(Self { appender, finished, fingerprint })
    }

    /// Whether a cell is done.
    pub fn is_finished(&self, id: &str) -> bool {
        self.finished.contains(id)
    }

    /// How many finished rows this shard's own file holds.
    pub fn kept(&self) -> usize {
        self.appender.ids().len()
    }

    /// The fingerprint every row carries.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Adds a finished row and makes sure it is on disk.
    pub fn append(&mut self, row: &Row) -> Result<()> {
        self.appender.append(row)?;
        self.finished.insert(row.id.clone());
        Ok(())
    }
}

/// The shard files of a folder, by name.
pub fn shard_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory, "reading"))? {
        let path = entry.map_err(at(directory, "reading"))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("shard-") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The rows of a shard file that nobody need own: an unfinished last line is left alone and left out.
pub fn read_rows(path: &Path, fingerprint: &str) -> Result<Vec<Row>> {
    let bytes = fs::read(path).map_err(at(path, "reading"))?;
    let (rows, _) = appender::parse(path, &bytes, fingerprint)?;
    Ok(rows)
}

/// A finished run: its manifest and its rows in the plan's order.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The folder.
    pub directory: PathBuf,
    /// What was run.
    pub manifest: Manifest,
    /// The rows found, timings included.
    pub rows: Vec<Row>,
    /// Cells without a row.
    pub missing: Vec<String>,
}

impl Finished {
    /// Reads the rows of a run, finished or not: from its shards, or where only the merged files were
    /// kept, from those.
    pub fn read(directory: &Path) -> Result<Self> {
        let manifest = Manifest::read(directory)?;
        let fingerprint = manifest.fingerprint();
        let mut by_id = BTreeMap::new();
        let shards = shard_files(directory)?;
        if shards.is_empty() {
            for row in merge::read_merged(directory, &fingerprint)? {
                by_id.insert(row.id.clone(), row);
            }
        }
        for file in shards {
            for row in read_rows(&file, &fingerprint)? {
                by_id.entry(row.id.clone()).or_insert(row);
            }
        }
        let mut rows = Vec::new();
        let mut missing = Vec::new();
        for cell in manifest.plan.cells() {
            match by_id.remove(&cell.id) {
                Some(row) => rows.push(row),
                None => missing.push(cell.id),
            }
        }
        Ok(Self { directory: directory.into(), manifest, rows, missing })
    }
}
