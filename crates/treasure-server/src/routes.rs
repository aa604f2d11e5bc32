//! The routes, one file a kind.

pub(crate) mod generate;
pub(crate) mod lists;
pub(crate) mod page;
pub(crate) mod score;

use serde_json::Value;

use crate::refusal::Refusal;

/// The refusal of a body without the texts it is about.
pub(crate) fn no_input() -> Refusal {
    Refusal::expected("input", "a text or a list of texts", &Value::Null)
        .with_hint("say what it is about: \"input\": \"The old dog was sad.\"")
}
