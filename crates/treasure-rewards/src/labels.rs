//! Labels by name or index, and what to say when a classifier has no such label.

use crate::{Error, Result, spec::names::nearest};

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
        None => {
            let message = format!("expected a label after #, one of {}", known.join(", "));
            Err(Error::reward(name, message).with_hint(NAME_ONE))
        }
    }
}

/// The error for a label that a classifier does not have.
pub(crate) fn unknown(name: &str, known: &[String], wanted: &str) -> Error {
    let message = format!("no label {wanted:?}; the labels are {}", known.join(", "));
    Error::reward(name, message).with_hint(
        match nearest(wanted, known.iter().map(String::as_str)) {
            Some(known) => format!("did you mean #{known}?"),
            None => NAME_ONE.into(),
        },
    )
}

/// What can be done where a label is missing or none of the classifier's.
pub(crate) const NAME_ONE: &str = "name one of its labels after #";
