//! Rules: rewards that need no model, all within [0, 1], with partial credit where a search can use it.
//!
//! Words are what white space separates; lengths and n-grams count them in the whole text, prompt included.
//! A rule is one file here, which says how it is written and what it computes, and one line in `ALL`.

mod distinct;
#[cfg(feature = "schema")]
mod json_schema;
mod length;
mod near;
mod pattern;
mod words;

use std::{fmt, sync::Arc};

pub use distinct::Distinct;
#[cfg(feature = "schema")]
pub use json_schema::JsonSchema;
pub use length::Length;
pub use pattern::Pattern;
pub use words::{Avoids, Contains};

use crate::{Error, Result, TextReward, spec::Style};

/// Makes a rule of a type with a `name` that says `of` one text how far it meets the rule, within [0, 1].
macro_rules! one_by_one {
    ($rule:ty) => {
        impl $crate::TextReward for $rule {
            fn name(&self) -> &str {
                &self.name
            }

            fn score(&self, texts: &[&str]) -> $crate::Result<Vec<f64>> {
                Ok(texts.iter().map(|text| self.of(text)).collect())
            }

            fn range(&self) -> $crate::Range {
                $crate::Range::UNIT
            }

            fn is_rule(&self) -> bool {
                true
            }
        }
    };
}
use one_by_one;

/// Every rule by the word before its colon.
pub(crate) const ALL: [&Scheme; 6] = [
    &pattern::SCHEME,
    &words::CONTAINS,
    &words::AVOIDS,
    &length::SCHEME,
    &json_schema::SCHEME,
    &distinct::SCHEME,
];

/// Makes a reward called by its first argument.
type Build = fn(&str, &[String]) -> Result<Arc<dyn TextReward>>;

/// How a rule is written, and what is made of it.
pub(crate) struct Scheme {
    /// The word before the colon.
    pub name: &'static str,
    /// How the text behind the colon is divided into arguments.
    pub style: Style,
    /// What must stand there, for messages.
    pub wants: &'static str,
    /// The cargo feature that this build would need for it.
    pub missing: Option<&'static str>,
    /// Finds what is wrong with the arguments, of which there is at least one; opens nothing.
    pub check: fn(&[String]) -> Result<(), Fault>,
    /// Makes the rule of arguments that passed the check.
    pub build: Build,
}

#[cfg(not(feature = "schema"))]
mod json_schema {
    use super::{Fault, Scheme, Style};

    pub(super) const SCHEME: Scheme = Scheme {
        name: "json-schema",
        style: Style::Labelled,
        wants: "a file",
        missing: Some("schema"),
        check: |_| Err(Fault::new(0, "not in this build")),
        build: |name, _| Err(Fault::new(0, "not in this build").error(name)),
    };
}

/// What is wrong with an argument, and where.
pub(crate) struct Fault {
    /// Which argument.
    pub argument: usize,
    /// The byte in it.
    pub at: usize,
    /// What was expected and what came.
    pub message: String,
    /// What can be done about it, where it is not what every specification is told.
    pub hint: Option<&'static str>,
}

impl Fault {
    /// A fault in the first argument.
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Self { argument: 0, at, message: message.into(), hint: None }
    }

    /// The fault as the error of a reward called `name`.
    pub fn error(self, name: &str) -> Error {
        self.hint.into_iter().fold(Error::reward(name, self.message), Error::with_hint)
    }
}

/// A rule as a specification has it.
#[derive(Clone)]
pub struct Rule {
    scheme: &'static Scheme,
    arguments: Vec<String>,
}

impl Rule {
    /// The rule called `name` with what stands behind its colon; `None` if there is no such rule or it does
    /// not take these arguments.
    pub fn new(name: &str, arguments: impl IntoIterator<Item = impl Into<String>>) -> Option<Self> {
        let scheme = ALL.iter().find(|scheme| scheme.name == name)?;
        let arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let given = !arguments.is_empty() && arguments.iter().all(|argument| !argument.is_empty());
        (given && (scheme.check)(&arguments).is_ok()).then_some(Self { scheme, arguments })
    }

    pub(crate) fn checked(scheme: &'static Scheme, arguments: Vec<String>) -> Result<Self, Fault> {
        (scheme.check)(&arguments)?;
        Ok(Self { scheme, arguments })
    }

    /// The word before its colon.
    pub fn name(&self) -> &'static str {
        self.scheme.name
    }

    /// What stands behind its colon, in pieces.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The reward, called `name`.
    pub fn build(&self, name: &str) -> Result<Arc<dyn TextReward>> {
        (self.scheme.build)(name, &self.arguments)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        (self.name(), &self.arguments) == (other.name(), &other.arguments)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.name()).field(&self.arguments).finish()
    }
}
