//! Standard output, without a panic when the reader goes away.

use std::{
    fmt::Display,
    io::{self, Write as _},
};

use serde::Serialize;

use crate::{
    failure::{OrFail as _, Outcome},
    options::Common,
};

/// Prints one line on standard output. A closed pipe (`treasure … | head`) ends the program quietly.
pub fn line(text: impl Display) -> Outcome<()> {
    match line_if_read(text)? {
        true => Ok(()),
        false => std::process::exit(0),
    }
}

/// Prints a result as JSON under `--json`, else in words.
pub fn either(common: &Common, result: &impl Serialize, words: impl Display) -> Outcome<()> {
    if common.json { line(serde_json::to_string(result)?) } else { line(words) }
}

/// Prints one line on standard output, and says whether anybody still reads it.
pub fn line_if_read(text: impl Display) -> Outcome<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context(|| "standard output"),
    }
}
