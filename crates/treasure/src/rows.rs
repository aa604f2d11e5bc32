//! A file of rows: append-only JSON Lines that a killed run can continue.
//!
//! Guarantees: a row is written whole and in job order; resuming keeps every finished row, repeats
//! none, recovers a truncated last line (and says so) and refuses rows of another plan; two runs never
//! write one file.

use std::{collections::HashSet, path::Path};

use serde_json::Value;

use crate::{Disk, Error, ErrorKind, Growing, Result};

/// Which row: the prompt's place in the run and the sample's number.
pub type Identity = (u64, u64);

/// What a run expects of the rows of a file it continues.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The text each prompt's rows begin with.
    pub prompts: &'a [&'a str],
    /// The plan of each prompt.
    pub plans: &'a [&'a Value],
}

/// An open file of rows.
#[derive(Debug)]
pub struct Store<D: Disk = std::fs::File> {
    file: Growing<D>,
    rows: Vec<Identity>,
    done: HashSet<Identity>,
    /// Made by this run and still empty: removed again if nothing gets written.
    fresh: bool,
    /// Bytes of an unfinished last line that were cut off.
    recovered: usize,
}

impl Store {
    /// Opens a new or empty file.
    pub fn create(path: &Path) -> Result<Self> {
        let fresh = !path.exists();
        let mut store = Self::on(Growing::fresh(path)?);
        store.fresh = fresh;
        Ok(store)
    }

    /// Opens a file to continue it.
    pub fn resume(path: &Path, expected: Expected<'_>) -> Result<Self> {
        let fresh = !path.exists();
        let (file, bytes) = Growing::open(path)?;
        let mut store = Self::on(file);
        store.fresh = fresh;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        store.recovered = bytes.len() - whole;
        let name = path.display();
        for (number, line) in bytes[..whole].split(|&byte| byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let identity = identify(line, expected).map_err(|error| {
                error
                    .context(format!("{name}:{}: cannot resume", number + 1))
                    .with_hint("repeat the run that began this file, or write to another file")
            })?;
            if !store.done.insert(identity) {
                return Err(wrong(format!(
                    "{name}:{}: prompt {} sample {} is there twice",
                    number + 1,
                    identity.0,
                    identity.1
                )));
            }
            store.rows.push(identity);
        }
        // Only after every row was accepted: a refused file stays as it was.
        if store.recovered > 0 {
            store.file.cut(whole as u64)?;
        }
        Ok(store)
    }
}

impl<D: Disk> Store<D> {
    /// Rows that go to a file with nothing in it.
    pub fn on(file: Growing<D>) -> Self {
        Self { file, rows: Vec::new(), done: HashSet::new(), fresh: false, recovered: 0 }
    }

    /// The file they are in.
    pub fn file(&self) -> &Growing<D> {
        &self.file
    }

    /// The rows that are there, in order.
    pub fn rows(&self) -> &[Identity] {
        &self.rows
    }

    /// Whether a row is already there.
    pub fn has(&self, identity: Identity) -> bool {
        self.done.contains(&identity)
    }

    /// How many rows are there.
    pub fn n_rows(&self) -> usize {
        self.done.len()
    }

    /// How many bytes of an unfinished line were cut off.
    pub fn recovered(&self) -> usize {
        self.recovered
    }

    /// What a run that continues the file should say about it.
    pub fn notes(&self) -> Vec<String> {
        let (path, mut notes) = (self.file.path().display(), Vec::new());
        if self.recovered > 0 {
            notes.push(format!(
                "{path}: the last line was cut short and will be made again ({} bytes dropped)",
                self.recovered
            ));
        }
        if self.n_rows() > 0 {
            notes.push(format!("{path}: {} rows kept", self.n_rows()));
        }
        notes
    }

    /// Appends a row, whole or not at all. `line` carries no line break.
    pub fn append(&mut self, identity: Identity, line: &str) -> Result<()> {
        self.file.append(format!("{line}\n").as_bytes()).map_err(|error| {
            Error::from(error)
                .context(format!("{}: cannot be written", self.file.path().display()))
                .with_hint("the finished rows are kept: make room and resume")
        })?;
        self.fresh = false;
        self.rows.push(identity);
        self.done.insert(identity);
        Ok(())
    }
}

impl<D: Disk> Drop for Store<D> {
    fn drop(&mut self) {
        if self.fresh {
            let _ = std::fs::remove_file(self.file.path());
        }
    }
}

/// Rows that cannot be used.
fn wrong(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, message)
}

/// Which row a line is, after checking that this run would have written it.
fn identify(line: &[u8], expected: Expected<'_>) -> Result<Identity> {
    let prompts = expected.prompts;
    let row: Value = serde_json::from_slice(line)
        .map_err(|error| wrong(format!("expected a JSON row, {error}")))?;
    let number = |field: &str| {
        row.get(field)
            .and_then(Value::as_u64)
            .ok_or_else(|| wrong(format!("`{field}`: expected a number in the row")))
    };
    let identity = (number("prompt_index")?, number("sample")?);
    let place = usize::try_from(identity.0).ok().filter(|&at| at < prompts.len());
    let place = place.ok_or_else(|| {
        let last = prompts.len().saturating_sub(1);
        wrong(format!("`prompt_index`: expected 0 to {last}, got {}", identity.0))
    })?;
    let got = row.get("prompt").and_then(Value::as_str).unwrap_or_default();
    if got != prompts[place] {
        return Err(wrong(format!("`prompt`: expected {:?}, got {got:?}", prompts[place])));
    }
    let plan = row.get("plan").unwrap_or(&Value::Null);
    if plan.get("keys").is_none() && expected.plans[place].get("keys").is_some() {
        return Err(wrong("the rows were made by an older program, whose seeds mean other texts")
            .with_hint("write to another file: old and new rows do not belong together"));
    }
    let differences = differences(expected.plans[place], plan);
    if !differences.is_empty() {
        return Err(wrong(format!("another plan: {}", differences.join(", "))));
    }
    Ok(identity)
}

/// Where two plans differ, option by option.
fn differences(expected: &Value, got: &Value) -> Vec<String> {
    let (Some(expected), Some(got)) = (expected.as_object(), got.as_object()) else {
        return vec![format!("expected a plan, got {got}")];
    };
    let mut keys: Vec<_> = expected.keys().collect();
    keys.extend(got.keys().filter(|key| !expected.contains_key(*key)));
    keys.into_iter()
        .filter(|&key| expected.get(key) != got.get(key))
        .map(|key| {
            let show = |plan: &serde_json::Map<String, Value>| {
                plan.get(key).map_or_else(|| "nothing".into(), Value::to_string)
            };
            format!("{key} is {} there and {} here", show(got), show(expected))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hint as _;
    use serde_json::json;

    fn row(prompt: &str, index: u64, sample: u64, length: u64) -> String {
        json!({"prompt": prompt, "prompt_index": index, "sample": sample, "plan": {"length": length}})
            .to_string()
    }

    fn resume(path: &Path) -> Result<Store> {
        let plan = json!({"length": 8});
        Store::resume(path, Expected { prompts: &["a"], plans: &[&plan] })
    }

    #[test]
    fn a_file_that_another_run_writes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let _first = Store::create(&path).unwrap();
        let error = Store::create(&path).unwrap_err().to_string();
        assert!(error.contains("another process is writing"), "{error}");
    }

    #[test]
    fn a_truncated_last_line_is_cut_off_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let first = row("a", 0, 0, 8);
        std::fs::write(&path, format!("{first}\n{}", &first[..9])).unwrap();
        let mut store = resume(&path).unwrap();
        assert_eq!((store.recovered(), store.n_rows()), (9, 1));
        assert!(store.has((0, 0)) && !store.has((0, 1)));
        let second = row("a", 0, 1, 8);
        store.append((0, 1), &second).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{first}\n{second}\n"));
    }

    #[test]
    fn rows_of_another_plan_or_prompt_are_refused_and_the_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        for (line, message) in [
            (row("a", 0, 0, 9), "length is 9 there and 8 here"),
            (row("b", 0, 0, 8), "expected \"a\", got \"b\""),
            (row("a", 3, 0, 8), "expected 0 to 0, got 3"),
            ("{}".to_string(), "`prompt_index`"),
            ("nonsense".to_string(), "expected a JSON row"),
        ] {
            let content = format!("{line}\n{{\"trunc");
            std::fs::write(&path, &content).unwrap();
            let error = resume(&path).unwrap_err().chain().join(": ");
            assert!(error.contains(message), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn rows_of_older_keys_are_refused_and_told_where_to_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        std::fs::write(&path, format!("{}\n", row("a", 0, 0, 8))).unwrap();
        let plan = json!({"length": 8, "keys": crate::KEYS});
        let error =
            Store::resume(&path, Expected { prompts: &["a"], plans: &[&plan] }).unwrap_err();
        assert!(error.chain().join(": ").contains("made by an older program"), "{error}");
        assert!(crate::hint_of(&error).unwrap().starts_with("write to another file"), "{error}");
    }

    #[test]
    fn a_row_that_is_there_twice_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        let line = row("a", 0, 0, 8);
        std::fs::write(&path, format!("{line}\n{line}\n")).unwrap();
        let error = resume(&path).unwrap_err().chain().join(": ");
        assert!(error.contains(":2: prompt 0 sample 0 is there twice"), "{error}");
    }

    #[test]
    fn an_existing_file_is_not_overwritten_and_an_unused_new_one_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.jsonl");
        drop(Store::create(&path).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "something").unwrap();
        let error = Store::create(&path).unwrap_err();
        assert!(error.hint().unwrap().starts_with("resume it"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "something");
    }
}
