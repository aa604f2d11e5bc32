//! Rules: rewards that need no model, all within [0, 1], with partial credit where a search can use it.
//!
//! Words are what white space separates; lengths and n-grams count them in the whole text, prompt included.

mod distinct;
mod json_schema;
mod length;
mod pattern;
mod words;

pub use distinct::Distinct;
pub use json_schema::JsonSchema;
pub use length::Length;
pub use pattern::Pattern;
pub(crate) use pattern::check_pattern;
pub use words::{Avoids, Contains};
