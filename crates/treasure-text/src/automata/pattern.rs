//! What a text must match: a regular expression, one of several choices, or a JSON Schema.

use std::fmt;

use serde_json::Value;

use super::{
    Dfa, Error, Result, SchemaOptions, nfa::Nfa, regex::whole as regex_dfa,
    schema::dfa as schema_dfa,
};

/// How large automata and tables may grow before a pattern is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// States of the automaton over bytes.
    pub max_states: usize,
    /// Nodes of a pattern before it is made deterministic; those of an expression are estimated before it is
    /// built.
    pub max_nodes: usize,
    /// Steps to make a pattern deterministic, or to walk a vocabulary with it: 2²⁶ are about a second.
    pub max_steps: usize,
    /// States × vocabulary, known before a table is built.
    pub max_product: usize,
    /// Pairs of states that tokens connect, and what is kept to find them: units of 8 bytes, counted while a
    /// table is built.
    pub max_pairs: usize,
    /// States × positions, and what leads from one state to another × positions over 16, known before a
    /// search: units of 16 bytes for each state of a search.
    pub max_cells: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_states: 20_000,
            max_nodes: 400_000,
            max_steps: 1 << 26,
            max_product: 1 << 31,
            max_pairs: 1 << 25,
            max_cells: 1 << 24,
        }
    }
}

/// What the whole text must match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    kind: Language,
    /// Leading spaces that rendering drops.
    drops_spaces: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Language {
    Regex(String),
    Choices(Vec<String>),
    Schema(String, SchemaOptions),
}

impl Pattern {
    /// A regular expression in the syntax of the `regex` crate, Unicode aware; the whole text must match.
    pub fn regex(pattern: impl Into<String>) -> Self {
        Self { kind: Language::Regex(pattern.into()), drops_spaces: 0 }
    }

    /// One of several texts.
    pub fn choices<S: Into<String>>(choices: impl IntoIterator<Item = S>) -> Self {
        let choices = choices.into_iter().map(Into::into).collect();
        Self { kind: Language::Choices(choices), drops_spaces: 0 }
    }

    /// A JSON text that is valid under a JSON Schema; see `docs/constraints.md` for what is supported.
    pub fn json_schema(schema: &Value, options: SchemaOptions) -> Self {
        Self { kind: Language::Schema(schema.to_string(), options), drops_spaces: 0 }
    }

    /// The same pattern where rendering drops one leading space (more), as at the start of a hole.
    #[must_use]
    pub fn dropping_first_space(mut self) -> Self {
        self.drops_spaces = self.drops_spaces.saturating_add(1);
        self
    }

    /// The automaton over bytes.
    pub fn dfa(&self, limits: &Limits) -> Result<Dfa> {
        let dfa = match &self.kind {
            Language::Regex(pattern) => regex_dfa(pattern, limits)?,
            Language::Choices(choices) => choices_dfa(choices, limits)?,
            Language::Schema(text, options) => {
                let schema = serde_json::from_str(text).map_err(|error| Error::Schema {
                    at: "#".to_owned(),
                    expected: "JSON".to_owned(),
                    got: error.to_string(),
                })?;
                schema_dfa(&schema, options, limits)?
            }
        };
        Ok((0..self.drops_spaces).fold(dfa, |dfa, _| dfa.dropping_first_space()))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Language::Regex(pattern) => write!(f, "regex `{pattern}`"),
            Language::Choices(choices) => write!(f, "choices {choices:?}"),
            Language::Schema(..) => write!(f, "JSON Schema"),
        }
    }
}

fn choices_dfa(choices: &[String], limits: &Limits) -> Result<Dfa> {
    let mut nfa = Nfa::new(limits.max_nodes);
    let (start, end) = (nfa.node()?, nfa.node()?);
    for choice in choices {
        nfa.bytes(start, choice.as_bytes(), end)?;
    }
    nfa.determinize(start, end, limits)?.ok_or_else(|| Error::Nothing {
        what: "choices".to_owned(),
        why: ": the list is empty".to_owned(),
    })
}
