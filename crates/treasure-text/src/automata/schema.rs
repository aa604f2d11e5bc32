//! JSON Schema as a regular language: texts that are valid, in one canonical form.
//!
//! Guarantee: every text of the language is valid under the schema. Not every valid text is in it: keys come in
//! the order of `properties`, objects are closed unless said otherwise, recursion is unrolled to a stated
//! depth. What cannot be held exactly is refused by name, never ignored. The table of keywords is in
//! `docs/constraints.md`.

mod array;
mod disjoint;
mod format;
mod keywords;
mod literal;
mod number;
mod object;
mod reference;
mod string;
mod value;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::{
    Dfa, Error, Limits, Result,
    nfa::{Nfa, Node},
};

/// Where white space may stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhiteSpace {
    /// Nowhere.
    None,
    /// At most one space, at the start, after `:` and after `,`.
    #[default]
    OneSpace,
    /// Any run of spaces, tabs and line breaks wherever JSON allows it.
    Any,
}

/// How a schema becomes a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SchemaOptions {
    /// Where white space may stand.
    pub white_space: WhiteSpace,
    /// How often a definition may be entered inside itself, and how deep values of no schema nest.
    pub depth: usize,
}

impl Default for SchemaOptions {
    fn default() -> Self {
        Self { white_space: WhiteSpace::OneSpace, depth: 3 }
    }
}

/// The JSON texts a schema allows.
pub(super) fn dfa(schema: &Value, options: &SchemaOptions, limits: &Limits) -> Result<Dfa> {
    let mut writer = Writer {
        root: schema,
        options,
        limits,
        nfa: Nfa::new(limits.max_nodes),
        entered: Vec::new(),
        nesting: 0,
        cut: false,
        visits: 0,
        known: FxHashMap::default(),
    };
    let (start, end) = (writer.nfa.node()?, writer.nfa.node()?);
    let first = writer.nfa.node()?;
    let last = writer.nfa.node()?;
    writer.gap(start, first, true)?;
    writer.gap(last, end, false)?;
    let possible = writer.value(schema, "#", first, last)?;
    let found = if possible { writer.nfa.determinize(start, end, limits)? } else { None };
    let why = match writer.cut {
        true => format!(" within recursion depth {}", options.depth),
        false => String::new(),
    };
    found.ok_or_else(|| Error::Nothing { what: "schema".to_owned(), why })
}

/// Writes the language of a schema between two nodes. Every method says whether it could: what is not
/// possible leaves dead ends, which are trimmed at the end.
struct Writer<'a> {
    root: &'a Value,
    options: &'a SchemaOptions,
    limits: &'a Limits,
    nfa: Nfa,
    /// The definitions on the way here.
    entered: Vec<String>,
    /// Schemas on the way here.
    nesting: usize,
    /// Whether the depth has left something out.
    cut: bool,
    /// Schemas that were entered: recursion may enter many that leave no node.
    visits: usize,
    /// Strings and numbers that were built, by what they were built from.
    known: FxHashMap<Built, Option<Arc<Dfa>>>,
}

/// What an automaton inside a schema is built from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Built {
    Character,
    Number { low: Option<i128>, high: Option<i128>, places: u32, multiple: Option<u64> },
    Text { pattern: Option<String>, format: Option<String>, min: usize, max: Option<usize> },
}

impl Writer<'_> {
    /// An automaton that is built once, however often it stands in a schema; `None` if nothing matches it.
    fn once(
        &mut self,
        what: Built,
        build: impl FnOnce(&Limits) -> Result<Option<Dfa>>,
    ) -> Result<Option<Arc<Dfa>>> {
        if let Some(known) = self.known.get(&what) {
            return Ok(known.clone());
        }
        let built = build(self.limits)?.map(Arc::new);
        self.known.insert(what, built.clone());
        Ok(built)
    }

    /// White space between two nodes: `after` says that it follows the start, a colon or a comma.
    fn gap(&mut self, from: Node, to: Node, after: bool) -> Result<()> {
        self.nfa.silent(from, to);
        match self.options.white_space {
            WhiteSpace::OneSpace if after => self.nfa.range(from, b' ', b' ', to),
            WhiteSpace::None | WhiteSpace::OneSpace => {}
            WhiteSpace::Any => {
                let run = self.nfa.node()?;
                for byte in [b' ', b'\t', b'\n', b'\r'] {
                    self.nfa.range(from, byte, byte, run);
                    self.nfa.range(run, byte, byte, run);
                }
                self.nfa.silent(run, to);
            }
        }
        Ok(())
    }

    /// A structural character, with the white space that may stand around it.
    fn mark(&mut self, from: Node, mark: u8, to: Node) -> Result<()> {
        let (before, after) = (self.nfa.node()?, self.nfa.node()?);
        let spaced = matches!(mark, b':' | b',');
        if matches!(mark, b'{' | b'[') {
            self.nfa.silent(from, before);
        } else {
            self.gap(from, before, false)?;
        }
        self.nfa.range(before, mark, mark, after);
        if matches!(mark, b'}' | b']') {
            self.nfa.silent(after, to);
            Ok(())
        } else {
            self.gap(after, to, spaced)
        }
    }
}
