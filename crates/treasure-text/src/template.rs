//! Templates: fixed text with holes, such as `The [MASK:5] was [MASK:12].`
//!
//! The fixed parts come out byte for byte. `[MASK]` is a hole of one token. What must stand in a hole follows
//! a bar: `[MASK:3|regex:[0-9]+]`, `[MASK|choices:red,green]`. Brackets inside come in pairs or as `\\[`.

use crate::{Error, Report, Result, Rule};

/// One part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text that stays as it is.
    Fixed(String),
    /// A hole of so many tokens, and what must stand in it.
    Hole {
        /// Its size.
        tokens: usize,
        /// What it must be.
        rule: Option<Rule>,
    },
}

/// A parsed template: fixed parts and holes in order, with no two fixed parts side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The parts.
    pub parts: Vec<Part>,
}

const OPEN: &str = "[MASK";

impl Template {
    /// Reads a template. At least one hole must be there.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut fixed = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(OPEN) {
            let (before, after) = (&rest[..at], &rest[at + OPEN.len()..]);
            let offset = text.len() - rest.len() + at;
            fixed.push_str(before);
            // `[MASKED]` and the like are ordinary text.
            if !after.starts_with([']', ':', '|']) {
                fixed.push_str(OPEN);
                rest = after;
                continue;
            }
            let Some(end) = closing(after) else {
                return Err(point(text, offset, "a hole that is never closed, expected `]`"));
            };
            let (size, rule) = match after[..end].split_once('|') {
                Some((size, rule)) => (size, Some(rule)),
                None => (&after[..end], None),
            };
            let rule = rule.map(Rule::parse).transpose()?;
            let tokens = match size.strip_prefix(':') {
                None => 1,
                Some(size) => match size.parse() {
                    Ok(size @ 1..=65_536) => size,
                    _ => {
                        let message =
                            format!("hole size: expected 1 to 65536 tokens, got {size:?}");
                        return Err(point(text, offset, &message));
                    }
                },
            };
            if !fixed.is_empty() {
                parts.push(Part::Fixed(std::mem::take(&mut fixed)));
            }
            parts.push(Part::Hole { tokens, rule });
            rest = &after[end + 1..];
        }
        fixed.push_str(rest);
        if !fixed.is_empty() {
            parts.push(Part::Fixed(fixed));
        }
        let template = Self { parts };
        if template.n_holes() == 0 {
            return Err(Error::new(format!("template: expected at least one hole, got {text:?}"))
                .with_hint("write a hole as [MASK] for one token or [MASK:5] for five"));
        }
        Ok(template)
    }

    /// Whether a text has a hole in it.
    pub fn has_hole(text: &str) -> bool {
        Self::parse(text).is_ok()
    }

    /// How many tokens the holes take.
    pub fn n_masks(&self) -> usize {
        let size = |part: &Part| if let Part::Hole { tokens, .. } = part { *tokens } else { 0 };
        self.parts.iter().map(size).sum()
    }

    /// How many holes there are.
    pub fn n_holes(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Hole { .. })).count()
    }

    /// The template with every hole as `[MASK:n]`, which is what its randomness hangs on.
    pub fn canonical(&self) -> String {
        self.parts.iter().fold(String::new(), |text, part| match part {
            Part::Fixed(fixed) => text + fixed,
            Part::Hole { tokens, .. } => text + &format!("[MASK:{tokens}]"),
        })
    }
}

/// Where the bracket that opened before `text` is closed.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// An error that points at the character.
fn point(text: &str, offset: usize, message: &str) -> Error {
    let line_start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[offset..].find('\n').map_or(text.len(), |at| offset + at);
    let column = text[line_start..offset].chars().count();
    let line = format!("  {}", &text[line_start..line_end]);
    let mark = format!("  {}^", " ".repeat(column));
    let message = format!("template: {message}");
    Error::Invalid(Report::lines([message.as_str(), &line, &mark]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use treasure_core::Hint as _;

    fn fixed(text: &str) -> Part {
        Part::Fixed(text.to_string())
    }

    fn hole(tokens: usize) -> Part {
        Part::Hole { tokens, rule: None }
    }

    #[test]
    fn rules_of_holes_may_hold_brackets() {
        let template =
            Template::parse(r"a [MASK:3|regex:[a-z\]]{2}] b [MASK|choices:red,green]").unwrap();
        let rule = |tokens, rule| Part::Hole { tokens, rule: Some(rule) };
        let regex = Rule::Regex(r"[a-z\]]{2}".into());
        let choices = Rule::Choices(vec!["red".into(), "green".into()]);
        assert_eq!(template.parts, [fixed("a "), rule(3, regex), fixed(" b "), rule(1, choices)]);
        assert_eq!(template.canonical(), "a [MASK:3] b [MASK:1]");
        let error = Template::parse("[MASK|colour:red]").unwrap_err();
        assert!(error.to_string().contains("expected regex:"), "{error}");
    }

    #[test]
    fn holes_and_fixed_text_alternate() {
        let template = Template::parse("The [MASK:5] was [MASK].").unwrap();
        assert_eq!(template.parts, [fixed("The "), hole(5), fixed(" was "), hole(1), fixed(".")]);
        assert_eq!(template.n_masks(), 6);
        assert_eq!(template.canonical(), "The [MASK:5] was [MASK:1].");
    }

    #[test]
    fn a_bare_mask_is_one_token_and_neighbours_stay_apart() {
        let template = Template::parse("[MASK][MASK:2]").unwrap();
        assert_eq!(template.parts, [hole(1), hole(2)]);
    }

    #[test]
    fn words_that_merely_begin_like_a_hole_are_text() {
        let template = Template::parse("[MASKED] [MASK]").unwrap();
        assert_eq!(template.parts, [fixed("[MASKED] "), hole(1)]);
    }

    #[test]
    fn a_template_without_holes_is_refused_with_a_hint() {
        let error = Template::parse("no holes here").unwrap_err();
        assert!(error.to_string().contains("at least one hole"), "{error}");
        assert!(error.hint().unwrap().contains("write a hole as [MASK]"));
    }

    #[test]
    fn a_bad_hole_is_pointed_at() {
        for bad in ["ab [MASK:0]", "ab [MASK:x]", "ab [MASK:3", "ab [MASK:99999999]"] {
            let error = Template::parse(bad).unwrap_err().to_string();
            assert!(error.contains("\n     ^"), "{error}");
        }
    }
}
