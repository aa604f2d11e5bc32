//! A specification that cannot be read, with a caret under the character that is wrong.

use std::{borrow::Cow, fmt};

use treasure_core::Hint;
use treasure_text::{printable, printable_lines};

/// Where and why a reward specification cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The whole specification.
    pub spec: String,
    /// The byte offset of the character that is wrong; the length of `spec` when something is missing at its end.
    pub at: usize,
    /// What was expected and what came.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}

impl SpecError {
    /// Adds what the user can do about it, if there is something.
    #[must_use]
    pub(super) fn hinted(self, hint: impl Into<Option<String>>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "reward: {}", printable_lines(&self.message))?;
        // What acts on a terminal would move the caret off its column, so it is shown as one visible cell.
        let acts = |c: char| printable(c.encode_utf8(&mut [0; 4])).len() > c.len_utf8();
        let shown: String = self.spec.chars().map(|c| if acts(c) { '␣' } else { c }).collect();
        let before = self.spec.get(..self.at).unwrap_or(&self.spec).chars().count();
        write!(f, "  {shown}\n  {:before$}^", "")
    }
}

impl std::error::Error for SpecError {}

impl Hint for SpecError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        self.hint.as_deref().map(Cow::Borrowed)
    }
}
