//! Strings: `minLength`, `maxLength`, `pattern`, `format`.
//!
//! Lengths count code points and patterns see the text behind the escapes. A string with a pattern is written
//! with the shortest escapes only; control characters without a short one do not occur in it.

use serde_json::Value;

use super::{
    super::{
        Dfa, Error, Limits, Result,
        dfa::DEAD,
        nfa::Node,
        regex::{somewhere, whole},
    },
    Built, Writer,
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
        let text = |keyword: &str| keywords.get(keyword).map(ToString::to_string);
        if keywords.get("pattern").or(keywords.get("format")).is_none() {
            self.characters(min, max, first, last)?;
            return Ok(true);
        }
        let built = Built::Text { pattern: text("pattern"), format: text("format"), min, max };
        let dfa = self.once(built, |limits| {
            let Some(dfa) = described(keywords, at, limits)? else { return Ok(None) };
            if min == 0 && max.is_none() {
                return Ok(Some(dfa));
            }
            let max = max.map_or(String::new(), |max| max.to_string());
            dfa.and(&whole(&format!("(?s:.){{{min},{max}}}"), limits)?, limits.max_states)
        })?;
        let Some(dfa) = dfa else { return Ok(false) };
        self.escaped(&dfa, first, last)?;
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
        let character = self.once(Built::Character, |limits| whole(CHARACTER, limits).map(Some))?;
        let Some(character) = character else { return Ok(()) };
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
            // Runs of bytes that lead to one state are one range.
            let plain = (0x20..=0xFF).filter(|byte| !matches!(byte, b'"' | b'\\'));
            let plain: Vec<(u8, u32)> = plain.map(|byte| (byte, table.step(state, byte))).collect();
            for run in plain.chunk_by(|a, b| a.1 == b.1 && a.0 + 1 == b.0) {
                let ((low, target), high) = (run[0], run[run.len() - 1].0);
                if target != DEAD {
                    self.nfa.range(node, low, high, nodes[target as usize]);
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

/// What `pattern` and `format` say about the text; `None` if nothing has them.
fn described(keywords: &Keywords, at: &str, limits: &Limits) -> Result<Option<Dfa>> {
    let format = match keywords.get("format") {
        None => None,
        Some(Value::String(name)) => match format_regex(name) {
            None => return Err(unsupported(at, "format", format!("{name}; use pattern"))),
            Some(regex) => Some(whole(regex, limits)?),
        },
        Some(other) => return Err(malformed(at, "format", "a name", other)),
    };
    let Some(pattern) = keywords.get("pattern") else { return Ok(format) };
    let translated = pattern.as_str().map(jsonschema_regex::to_rust_regex);
    let (Some(text), Some(Ok(translated))) = (pattern.as_str(), translated) else {
        return Err(malformed(at, "pattern", "a regular expression", pattern));
    };
    let found = somewhere(&translated, limits).map_err(|error| match error {
        Error::Regex { message, .. } => unsupported(at, "pattern", format!("`{text}`: {message}")),
        other => other,
    })?;
    // ECMA's `.` stops at these two and ours does not, so they do not occur.
    let lines = whole(r"[^\u{2028}\u{2029}]*", limits)?;
    let Some(found) = found else { return Ok(None) };
    let found = found.and(&lines, limits.max_states)?;
    match (found, format) {
        (Some(found), Some(format)) => found.and(&format, limits.max_states),
        (found, _) => Ok(found),
    }
}
