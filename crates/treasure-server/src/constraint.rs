//! Where OpenAI's and vLLM's ways of asking for a form of output become constraints of the search.
//!
//! The library has no constraints yet, so each is refused by name; this is the one place to map them.

use serde_json::Value;

use crate::{
    fields::Fields,
    refusal::{Refusal, Result},
};

/// Every field that asks for a form of output.
pub(crate) const FIELDS: &[&str] = &[
    "response_format",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "guided_decoding_backend",
    "guided_whitespace_pattern",
    "structured_outputs",
    "grammar",
];

/// Takes what a request says about the form of its output.
pub(crate) fn take(fields: &mut Fields) -> Result<()> {
    for name in FIELDS {
        let Some(asked) = fields.value(name) else { continue };
        if *name == "response_format" && asked.get("type").and_then(Value::as_str) == Some("text") {
            continue;
        }
        return Err(Refusal::field(*name, "this server cannot hold an output to a form yet")
            .with_code("unsupported_parameter")
            .with_hint("steer towards it instead: the rewards regex:PATTERN and length:A..B"));
    }
    Ok(())
}
