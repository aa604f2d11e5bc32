//! One append-only JSON Lines file with one writer.
//!
//! Guarantees: each row is one line, synced before `append` returns; after a failed write the file is
//! cut back to its last whole line; an unfinished last line is repaired on opening and said so;
//! damage anywhere else is an error.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::Read as _,
    path::Path,
};

use treasure::{Disk, Growing};

use crate::{Error, Result, error::at, row::Row};

/// What opening had to repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing.
    Clean,
    /// A line without its end was not a row and was cut off.
    Dropped {
        /// Its length.
        bytes: usize,
    },
    /// A whole row lacked only its line end.
    Completed,
}

/// The writer of a shard file.
#[derive(Debug)]
pub struct Appender<T: Disk = File> {
    file: Growing<T>,
    ids: Vec<String>,
    recovery: Recovery,
}

impl Appender {
    /// Opens or creates a file, locks it, checks its rows and repairs its last line.
    pub fn open(path: &Path, fingerprint: &str) -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(at(path, "opening"))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::Locked { path: path.into() },
            TryLockError::Error(source) => at(path, "locking")(source),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at(path, "reading"))?;
        let (rows, recovery) = parse(path, &bytes, fingerprint)?;
        let ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
        let length = bytes.len() as u64;
        let mut file = Growing::new(path, file, length);
        match recovery {
            Recovery::Clean => Ok(()),
            Recovery::Dropped { bytes } => file.cut(length - bytes as u64),
            Recovery::Completed => file.append(b"\n"),
        }
        .map_err(at(path, "repairing"))?;
        Ok(Self { file, ids, recovery })
    }
}

impl<T: Disk> Appender<T> {
    /// What opening had to repair.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// The ids of the finished rows, in order.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// Adds a row.
    pub fn append(&mut self, row: &Row) -> Result<()> {
        let mut line = serde_json::to_vec(row).map_err(|error| Error::Row {
            path: self.file.path().into(),
            line: self.ids.len() + 1,
            message: error.to_string(),
        })?;
        line.push(b'\n');
        self.file.append(&line).map_err(|source| Error::Io {
            path: self.file.path().into(),
            action: "writing",
            kept: Some(self.ids.len()),
            source,
        })?;
        self.ids.push(row.id.clone());
        Ok(())
    }
}

/// The rows of a file, and what is wrong with its last line.
pub(crate) fn parse(path: &Path, bytes: &[u8], fingerprint: &str) -> Result<(Vec<Row>, Recovery)> {
    let mut rows: Vec<Row> = Vec::new();
    let mut rest = bytes;
    let mut recovery = Recovery::Clean;
    while !rest.is_empty() {
        let line = rows.len() + 1;
        let end = rest.iter().position(|&byte| byte == b'\n');
        let text = &rest[..end.unwrap_or(rest.len())];
        match (serde_json::from_slice::<Row>(text), end) {
            (Ok(row), end) => {
                if row.plan != fingerprint {
                    return Err(Error::OtherPlan {
                        path: path.into(),
                        expected: fingerprint.into(),
                        found: row.plan,
                        difference: format!("row {} of line {line}", row.id),
                    });
                }
                if let Some(first) = rows.iter().position(|earlier| earlier.id == row.id) {
                    let message = format!("{} is already on line {}", row.id, first + 1);
                    return Err(Error::Row { path: path.into(), line, message });
                }
                rows.push(row);
                if end.is_none() {
                    recovery = Recovery::Completed;
                }
            }
            (Err(_), None) => recovery = Recovery::Dropped { bytes: text.len() },
            (Err(error), Some(_)) => {
                return Err(Error::Row { path: path.into(), line, message: error.to_string() });
            }
        }
        rest = end.map_or(&[], |end| &rest[end + 1..]);
    }
    Ok((rows, recovery))
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;
    use treasure::Hint as _;

    fn row(id: &str) -> Row {
        Row {
            id: id.into(),
            plan: "plan".into(),
            variant: "base".into(),
            prompt: 0,
            continuation: 0,
            samples: Vec::new(),
            branching: Vec::new(),
            variation: Vec::new(),
            timing: None,
        }
    }

    #[test]
    fn a_file_cut_at_any_byte_keeps_every_whole_row_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard-0-of-1.jsonl");
        let mut whole = Appender::open(&path, "plan").unwrap();
        for id in ["a é", "b", "c"] {
            whole.append(&row(id)).unwrap();
        }
        drop(whole);
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let mut again = Appender::open(&path, "plan").unwrap();
            // A row counts as soon as its closing brace is there.
            let ends: Vec<_> = (0..bytes.len()).filter(|&i| bytes[i] == b'\n').collect();
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(again.ids().len(), whole, "cut at {cut}");
            let at_row_end = cut == 0 || bytes[cut - 1] == b'\n';
            assert_eq!(again.recovery() == Recovery::Clean, at_row_end, "cut at {cut}");
            for id in &["a é", "b", "c"][whole..] {
                again.append(&row(id)).unwrap();
            }
            drop(again);
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "cut at {cut}");
        }
    }

    #[test]
    fn damage_before_the_last_line_is_an_error_that_names_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let good = serde_json::to_string(&row("a")).unwrap();
        std::fs::write(&path, format!("{good}\n{{\"id\": broken\n")).unwrap();
        let error = Appender::open(&path, "plan").unwrap_err();
        assert!(matches!(error, Error::Row { line: 2, .. }), "{error}");
        std::fs::write(&path, format!("{good}\n{good}\n")).unwrap();
        let error = Appender::open(&path, "plan").unwrap_err().to_string();
        assert!(error.contains("a is already on line 1"), "{error}");
    }

    #[test]
    fn a_row_of_another_plan_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, serde_json::to_string(&row("a")).unwrap()).unwrap();
        let error = Appender::open(&path, "another").unwrap_err();
        assert!(matches!(error, Error::OtherPlan { .. }), "{error}");
    }

    #[test]
    fn a_second_writer_is_refused_while_the_first_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let first = Appender::open(&path, "plan").unwrap();
        assert!(matches!(Appender::open(&path, "plan"), Err(Error::Locked { .. })));
        drop(first);
        assert!(Appender::open(&path, "plan").is_ok());
    }

    /// A disk with room for so many bytes.
    struct SmallDisk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for SmallDisk {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            let free = self.room - self.bytes.len();
            if free == 0 && !data.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = data.len().min(free);
            self.bytes.extend(&data[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Disk for SmallDisk {
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.bytes.truncate(length as usize);
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_said_and_keeps_the_finished_rows_whole() {
        let line = serde_json::to_vec(&row("a")).unwrap().len() + 1;
        let disk = SmallDisk { bytes: Vec::new(), room: 2 * line + line / 2 };
        let mut appender = Appender {
            file: Growing::new(Path::new("rows.jsonl"), disk, 0),
            ids: Vec::new(),
            recovery: Recovery::Clean,
        };
        appender.append(&row("a")).unwrap();
        appender.append(&row("b")).unwrap();
        let error = appender.append(&row("c")).unwrap_err();
        assert!(matches!(error, Error::Io { kept: Some(2), .. }), "{error}");
        assert!(error.hint().unwrap().contains("resume the run"));
        let (rows, recovery) =
            parse(Path::new("rows"), &appender.file.disk().bytes, "plan").unwrap();
        assert_eq!((rows.len(), recovery), (2, Recovery::Clean));
    }
}
