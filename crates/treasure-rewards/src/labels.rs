//! Labels by name or index, and what to say when a classifier has no such label.

use crate::{Error, Range, Result, spec::ValueKind};

/// The index of the label a user asked for: by name in any case, else by number.
pub(crate) fn find(known: &[String], wanted: &str) -> Option<usize> {
    known
        .iter()
        .position(|label| label == wanted)
        .or_else(|| known.iter().position(|label| label.eq_ignore_ascii_case(wanted)))
        .or_else(|| wanted.parse().ok().filter(|&index: &usize| index < known.len()))
}

/// The index of the label a user asked for; of a model with one output, none needs to be named.
pub(crate) fn find_or_only(name: &str, known: &[String], wanted: Option<&str>) -> Result<usize> {
    match wanted {
        Some(wanted) => find(known, wanted).ok_or_else(|| unknown(name, known, wanted)),
        None if known.len() == 1 => Ok(0),
        None => Err(Error::reward(
            name,
            format!("expected a label after #, one of {}", known.join(", ")),
        )),
    }
}

/// The numbers of a classifier. Without a label it may be a reward model, whose one number is anything.
pub(crate) fn range(wanted: Option<&str>, value: ValueKind) -> Range {
    match (wanted, value) {
        (None, ValueKind::LogProb) => Range::ANY,
        (_, value) => value.range(),
    }
}

/// The error for a label that a classifier does not have.
pub(crate) fn unknown(name: &str, known: &[String], wanted: &str) -> Error {
    let message = format!("no label {wanted:?}; the labels are {}", known.join(", "));
    Error::reward(name, message)
}
