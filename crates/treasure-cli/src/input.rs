//! What commands read: files, and standard input for `-`.

use std::{fs, io, path::Path};

use treasure::Entry;

use crate::failure::{OrFail as _, Outcome};

/// The prompts and templates of a file in JSON Lines; `-` is standard input.
pub fn entries(path: &Path) -> Outcome<Vec<Entry>> {
    let content = read(path).map_err(|failure| {
        failure.hint(
            "--prompts takes a JSON Lines file, one {\"prompt\": \"…\"} a line; a prompt itself is given without an option",
        )
    })?;
    Ok(Entry::read_lines(&content, &path.display().to_string())?)
}

/// The finished texts of a file and of a command line, where `-` is standard input.
pub fn finished(file: Option<&Path>, written: &[String]) -> Outcome<Vec<Entry>> {
    let mut texts = file.map_or(Ok(Vec::new()), texts)?;
    for text in written {
        match text.as_str() {
            "-" => texts.extend(self::texts(Path::new("-"))?),
            text => texts.push(Entry::finished(text)),
        }
    }
    Ok(texts)
}

/// The finished texts of a file; standard input may hold rows too, which begin with a brace.
fn texts(path: &Path) -> Outcome<Vec<Entry>> {
    let content = read(path).map_err(|failure| {
        failure
            .hint("--file takes one text a line, or rows with `text` in a file that ends in .jsonl")
    })?;
    let rows = path.extension().is_some_and(|extension| extension == "jsonl")
        || path.as_os_str() == "-" && content.trim_start().starts_with('{');
    Ok(treasure::read_finished(&content, &path.display().to_string(), rows)?)
}

/// The whole content of a file; `-` is standard input.
pub fn read(path: &Path) -> Outcome<String> {
    let text = match path.as_os_str() == "-" {
        true => io::read_to_string(io::stdin()),
        false => fs::read_to_string(path),
    };
    text.context(|| format!("{}: cannot be read", path.display()))
}

/// Gives a file a new content, whole or not at all; `-` is standard input, which stays as it is.
pub fn replace(path: &Path, text: &str) -> Outcome<()> {
    let place = || format!("{}: cannot be written", path.display());
    if path.as_os_str() == "-" {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".filled");
    let beside = path.with_file_name(name);
    fs::write(&beside, text).context(place)?;
    let permissions = fs::metadata(path).context(place)?.permissions();
    fs::set_permissions(&beside, permissions).context(place)?;
    fs::rename(&beside, path).context(place)
}
