//! Strings: `minLength`, `maxLength`, `pattern`, `format`.
//!
//! Lengths count code points and patterns see the text behind the escapes. A string with a pattern is written
//! with the shortest escapes only; control characters without a short one do not occur in it.

use std::sync::Arc;

use super::{
    super::{
        Dfa, Result,
        dfa::DEAD,
        nfa::Node,
        regex::{somewhere, whole},
    },
    Writer,
    format::format_regex,
    keywords::{Keywords, malformed, size, unsupported},
};

/// One character of a JSON string, with the escapes of two characters only: whatever a model wants to write
/// can be written without `\uXXXX`, which it would stumble into.
const CHARACTER: &str = r#"[^"\\\x00-\x1F]|\\["\\/bfnrt]"#;

/// Characters with an escape of two.
const SHORT: [(u8, u8); 7] = [
    (b'"', b'"'),
    (b'\\', b'\\'),
    (0x08, b'b'),
    (0x0C, b'f'),
    (b'\n', b'n'),
    (b'\r', b'r'),
    (b'\t', b't'),
];

impl Writer<'_> {
    pub(super) fn string(
        &mut self,
        keywords: &Keywords,
        at: &str,
        from: Node,
        to: Node,
    ) -> Result<bool> {
        let min = size(keywords, "minLength", at)?.unwrap_or(0);
        let max = size(keywords, "maxLength", at)?;
        if max.is_some_and(|max| max < min) {
            return Ok(false);
        }
        let (first, last) = (self.nfa.node()?, self.nfa.node()?);
        self.nfa.range(from, b'"', b'"', first);
        self.nfa.range(last, b'"', b'"', to);
        match self.described(keywords, at)? {
            Described::Freely => self.characters(min, max, first, last)?,
            Described::Never => return Ok(false),
            Described::As(mut dfa) => {
                if min > 0 || max.is_some() {
                    let max = max.map_or(String::new(), |max| max.to_string());
                    let lengths = whole(&format!("(?s:.){{{min},{max}}}"), self.limits)?;
                    match dfa.and(&lengths, self.limits.max_states)? {
                        Some(both) => *dfa = both,
                        None => return Ok(false),
                    }
                }
                self.escaped(&dfa, first, last)?;
            }
        }
        Ok(true)
    }

    /// Between `min` and `max` characters.
    fn characters(
        &mut self,
        min: usize,
        max: Option<usize>,
        mut from: Node,
        to: Node,
    ) -> Result<()> {
        let character = match &self.character {
            Some(dfa) => dfa.clone(),
            None => Arc::new(whole(CHARACTER, self.limits)?),
        };
        self.character = Some(character.clone());
        for index in 0..max.unwrap_or(min) {
            if index >= min {
                self.nfa.silent(from, to);
            }
            let next = self.nfa.node()?;
            self.nfa.dfa(from, &character, next)?;
            from = next;
        }
        if max.is_none() {
            self.nfa.dfa(from, &character, from)?;
        }
        self.nfa.silent(from, to);
        Ok(())
    }

    /// What `pattern` and `format` say about the text.
    fn described(&self, keywords: &Keywords, at: &str) -> Result<Described> {
        let mut described = Described::Freely;
        if let Some(pattern) = keywords.get("pattern") {
            let Some(text) = pattern.as_str() else {
                return Err(malformed(at, "pattern", "a regular expression", pattern));
            };
            let Ok(translated) = jsonschema_regex::to_rust_regex(text) else {
                return Err(malformed(at, "pattern", "a regular expression", pattern));
            };
            let found = somewhere(&translated, self.limits).map_err(|error| match error {
                super::super::Error::Regex { message, .. } => {
                    unsupported(at, "pattern", format!("`{text}`: {message}"))
                }
                other => other,
            })?;
            // ECMA's `.` stops at these two and ours does not, so they do not occur.
            let lines = whole(r"[^\u{2028}\u{2029}]*", self.limits)?;
            described = match found {
                Some(dfa) => Described::of(dfa.and(&lines, self.limits.max_states)?),
                None => Described::Never,
            };
        }
        if let Some(format) = keywords.get("format") {
            let regex = format.as_str().map(format_regex);
            let Some(regex) = regex else {
                return Err(malformed(at, "format", "a name", format));
            };
            let Some(regex) = regex else {
                let name = format.as_str().unwrap_or_default();
                return Err(unsupported(at, "format", format!("{name}; use pattern")));
            };
            let dfa = whole(regex, self.limits)?;
            described = match described {
                Described::Freely => Described::of(Some(dfa)),
                Described::Never => Described::Never,
                Described::As(pattern) => Described::of(pattern.and(&dfa, self.limits.max_states)?),
            };
        }
        Ok(described)
    }

    /// The texts of an automaton, as they are written between quotes.
    fn escaped(&mut self, dfa: &Dfa, from: Node, to: Node) -> Result<()> {
        let table = &dfa.table;
        let nodes = (0..dfa.states()).map(|_| self.nfa.node()).collect::<Result<Vec<_>>>()?;
        self.nfa.silent(from, nodes[table.start as usize]);
        for (state, &node) in nodes.iter().enumerate() {
            let state = state as u32;
            if table.accepting[state as usize] {
                self.nfa.silent(node, to);
            }
            for byte in (0x20..=0xFF).filter(|byte| !matches!(byte, b'"' | b'\\')) {
                let target = table.step(state, byte);
                if target != DEAD {
                    self.nfa.range(node, byte, byte, nodes[target as usize]);
                }
            }
            let backslash = self.nfa.node()?;
            self.nfa.range(node, b'\\', b'\\', backslash);
            for (byte, written) in SHORT {
                let target = table.step(state, byte);
                if target != DEAD {
                    self.nfa.range(backslash, written, written, nodes[target as usize]);
                }
            }
        }
        Ok(())
    }
}

/// What keywords say about the text of a string.
enum Described {
    Freely,
    As(Box<Dfa>),
    Never,
}

impl Described {
    fn of(dfa: Option<Dfa>) -> Self {
        dfa.map_or(Self::Never, |dfa| Self::As(Box::new(dfa)))
    }
}
