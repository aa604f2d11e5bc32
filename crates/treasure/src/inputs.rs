//! Texts and token ids as people write them into files and command lines.

use serde_json::{Map, Value};

use crate::{Entry, Error, ROW_FIELDS, Result};

/// The finished texts of a file's content, in order, each with the fields of its row that are the caller's own:
/// one a line, or rows of JSON Lines with `text`, `prompt` or `context_string`. A row whose `text` begins with its
/// `prompt` keeps that as its prompt. `name` is the file's, for messages.
pub fn read_finished(content: &str, name: &str, rows: bool) -> Result<Vec<Entry>> {
    let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(number, line): (usize, &str)| match rows {
        true => finished(line, &format!("{name}:{}", number + 1)),
        false => Ok(Entry::finished(line)),
    };
    let texts: Vec<Entry> = lines.map(read).collect::<Result<_>>()?;
    if texts.is_empty() {
        let message = format!("{name}: expected at least one text, got an empty file");
        return Err(Error::request(message).with_hint("write one text a line"));
    }
    Ok(texts)
}

const PLAIN: &str = "a file whose name does not end in .jsonl is read as one text a line";

fn finished(line: &str, place: &str) -> Result<Entry> {
    let mut row: Map<String, Value> = serde_json::from_str(line).map_err(|error| {
        Error::request(format!("{place}: expected a JSON object, {error}")).with_hint(PLAIN)
    })?;
    let fields = ["text", "prompt", "context_string"];
    let text = fields.iter().find_map(|field| row.get(*field).and_then(Value::as_str));
    let text = text.map(str::to_owned).ok_or_else(|| {
        Error::request(format!("{place}: expected `text`, `prompt` or `context_string`"))
            .with_hint(PLAIN)
    })?;
    // What was written from a prompt goes on from it.
    let prompt = row.get("prompt").and_then(Value::as_str).filter(|prompt| {
        !prompt.is_empty() && text.len() > prompt.len() && text.starts_with(prompt)
    });
    let prompt = prompt.map(str::to_owned);
    row.retain(|name, _| !fields.contains(&name.as_str()) && !ROW_FIELDS.contains(&name.as_str()));
    Ok(Entry { extra: row, prompt, ..Entry::finished(text) })
}

/// Token ids with commas, `M` for a mask (`None`): `5,17,M,42`.
pub fn read_ids(text: &str) -> Result<Vec<Option<u32>>> {
    let read = |(place, item): (usize, &str)| match item.trim() {
        "M" | "m" => Ok(None),
        // u32::MAX is reserved: no vocabulary reaches it.
        item => match item.parse::<u32>() {
            Ok(id) if id < u32::MAX => Ok(Some(id)),
            _ => Err(Error::request(format!(
                "ids: expected a token id or M at place {place}, got {item:?}"
            ))
            .with_hint("write ids with commas and M for a mask, such as 5,17,M,42")),
        },
    };
    text.split(',').enumerate().map(read).collect()
}

/// Token ids without masks.
pub fn read_whole_ids(text: &str) -> Result<Vec<u32>> {
    let whole = |(place, id): (usize, Option<u32>)| {
        id.ok_or_else(|| {
            Error::request(format!("ids: expected a token id at place {place}, got a mask"))
                .with_hint("only complete sequences are scored; predictions take masks")
        })
    };
    read_ids(text)?.into_iter().enumerate().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_files_hold_a_text_a_line_and_rows_say_theirs() {
        let texts = |content: &str, rows: bool| -> Vec<String> {
            let read = read_finished(content, "t", rows).unwrap();
            read.into_iter().filter_map(|entry| entry.text).collect()
        };
        assert_eq!(texts("a b\n\n c\n", false), ["a b", " c"]);
        let rows = "{\"text\": \"a\", \"prompt\": \"x\"}\n{\"prompt\": \"b\"}\n";
        assert_eq!(texts(rows, true), ["a", "b"]);
        let row = "{\"id\": 7, \"text\": \"a\", \"reward\": 1}";
        let extra = Map::from_iter([("id".to_owned(), 7.into())]);
        let own = Entry { extra, ..Entry::finished("a") };
        assert_eq!(read_finished(row, "t", true).unwrap(), [own]);
        let row = r#"{"prompt": "The lake", "text": "The lake is deep."}"#;
        let read = read_finished(row, "t", true).unwrap();
        assert_eq!(read[0].prompt.as_deref(), Some("The lake"));
        let row = r#"{"prompt": "The sea", "text": "The lake is deep."}"#;
        assert_eq!(read_finished(row, "t", true).unwrap()[0].prompt, None);
        let error = read_finished("{\"other\": 1}\n", "t.jsonl", true).unwrap_err().to_string();
        assert!(error.contains("t.jsonl:1: expected `text`"), "{error}");
        let error = read_finished("\n", "t", true).unwrap_err().to_string();
        assert!(error.contains("at least one text"), "{error}");
    }

    #[test]
    fn ids_are_read_in_order_and_what_is_none_is_named_with_its_place() {
        assert_eq!(read_ids("1, 2,M,4").unwrap(), [Some(1), Some(2), None, Some(4)]);
        for bad in ["1,x", "1,", "1,-2", "1,4294967295", "1,99999999999"] {
            let error = read_ids(bad).unwrap_err().to_string();
            assert!(error.contains("at place 1"), "{error}");
        }
        assert!(read_whole_ids("1,M").unwrap_err().to_string().contains("got a mask"));
    }
}
