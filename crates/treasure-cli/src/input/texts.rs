//! Texts to score from a file: one a line, or the rows of a JSON Lines file.

use std::path::Path;

use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// Reads all texts of a file, in order. A `.jsonl` file holds rows with `text`, `prompt` or
/// `context_string`; any other file holds one text a line.
pub fn read(path: &Path) -> Outcome<Vec<String>> {
    let name = path.display();
    let content = super::read(path)?;
    // Standard input has no name to tell by: rows begin with a brace.
    let is_rows = path.extension().is_some_and(|extension| extension == "jsonl")
        || path.as_os_str() == "-" && content.trim_start().starts_with('{');
    let texts: Vec<String> = content
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| if is_rows { text_of(line, number, path) } else { Ok(line.into()) })
        .collect::<Outcome<_>>()?;
    if texts.is_empty() {
        return Err(Failure::new(format!("{name}: expected at least one text, got an empty file")));
    }
    Ok(texts)
}

fn text_of(line: &str, number: usize, path: &Path) -> Outcome<String> {
    let place = format!("{}:{}", path.display(), number + 1);
    let row: Value = serde_json::from_str(line)
        .map_err(|error| Failure::new(format!("{place}: expected a JSON object, {error}")))?;
    ["text", "prompt", "context_string"]
        .iter()
        .find_map(|field| row.get(field).and_then(Value::as_str))
        .map(str::to_string)
        .ok_or_else(|| {
            Failure::new(format!("{place}: expected `text`, `prompt` or `context_string`"))
                .hint("a file whose name does not end in .jsonl is read as one text a line")
        })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn plain_files_hold_a_text_a_line_and_jsonl_files_hold_rows() {
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("texts.txt");
        fs::write(&plain, "a b\n\n c\n").unwrap();
        assert_eq!(read(&plain).unwrap(), ["a b", " c"]);
        let rows = dir.path().join("texts.jsonl");
        fs::write(&rows, "{\"text\": \"a\", \"prompt\": \"x\"}\n{\"prompt\": \"b\"}\n").unwrap();
        assert_eq!(read(&rows).unwrap(), ["a", "b"]);
        fs::write(&rows, "{\"other\": 1}\n").unwrap();
        assert!(read(&rows).unwrap_err().to_string().contains("texts.jsonl:1: expected `text`"));
        fs::write(&rows, "\n").unwrap();
        assert!(read(&rows).unwrap_err().to_string().contains("at least one text"));
    }
}
