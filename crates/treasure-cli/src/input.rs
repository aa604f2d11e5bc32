//! What commands read: prompts, texts and token ids.

pub mod ids;
pub mod prompts;
pub mod texts;

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use crate::failure::{Failure, Outcome};

/// The whole content of a file; `-` is standard input.
pub fn read(path: &Path) -> Outcome<String> {
    let failed = |error: io::Error| {
        Failure::new(error).context(format!("{}: cannot be read", path.display()))
    };
    if path.as_os_str() == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    fs::read_to_string(path).map_err(failed)
}
