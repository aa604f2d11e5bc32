//! A place in a specification, and how far a reward's own text reaches from there.
//!
//! Unquoted text ends at a `+` with white space on both sides; inside a function or parentheses also
//! at a comma or a closing bracket that it did not open itself.

use crate::{Error, Result};

/// How the text behind a scheme is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// One piece.
    Whole,
    /// Pieces separated by commas.
    List,
    /// A piece, then perhaps `#` and another.
    Labelled,
}

/// A piece of text behind a scheme, without its quotes.
pub(super) struct Piece {
    pub text: String,
    /// Where its first character stands.
    pub at: usize,
    /// The quote around it, which is doubled inside.
    pub quote: Option<char>,
}

impl Piece {
    /// Where the character at a byte of its text stands in the specification.
    pub fn place(&self, byte: usize) -> usize {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let doubled = before.chars().filter(|&c| Some(c) == self.quote).count();
        self.at + before.len() + doubled
    }
}

pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
    /// How many functions and parentheses are open.
    pub nested: usize,
}

impl<'a> Cursor<'a> {
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Consumes a character if it comes next.
    pub fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Consumes characters as long as they fit.
    pub fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !fits(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Consumes ` + ` if it comes next.
    pub fn eat_plus(&mut self) -> bool {
        let found = plus_between_spaces(self.rest());
        if found {
            self.skip_space();
            self.at += 1;
            self.skip_space();
        }
        found
    }

    /// A fault at a byte of the specification.
    pub fn fault(&self, at: usize, message: impl Into<String>) -> Error {
        const HINT: &str =
            "docs/rewards.md has every reward, such as sentiment=negative or contains:dog,cat";
        Error::Spec { spec: self.text.into(), at, message: message.into(), hint: HINT.into() }
    }

    /// What stands at the cursor, for a message.
    pub fn found(&self) -> String {
        self.peek().map_or_else(|| "the end".into(), |c| format!("`{c}`"))
    }

    /// Reads the text behind a scheme.
    pub fn pieces(&mut self, style: Style) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        loop {
            if style == Style::List {
                self.skip_space_before_item();
            }
            let labelled = style == Style::Labelled && !pieces.is_empty();
            let piece = match self.peek() {
                Some(quote @ ('\'' | '"')) => self.quoted(quote, style)?,
                _ => self.unquoted(style, labelled)?,
            };
            pieces.push(piece);
            let separator = match style {
                Style::Whole => return Ok(pieces),
                Style::List => ',',
                Style::Labelled if labelled => return Ok(pieces),
                Style::Labelled => '#',
            };
            if self.ends_here(style) || !self.eat(separator) {
                return Ok(pieces);
            }
        }
    }

    fn skip_space_before_item(&mut self) {
        if !plus_between_spaces(self.rest()) {
            self.skip_space();
        }
    }

    fn quoted(&mut self, quote: char, style: Style) -> Result<Piece> {
        let open = self.at;
        self.at += 1;
        let start = self.at;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => {
                    let fault = self.fault(open, format!("quote {quote} is never closed"));
                    return Err(fault.with_hint(DOUBLED));
                }
                Some(c) => {
                    self.at += c.len_utf8();
                    if c != quote {
                        text.push(c);
                    } else if !self.eat(quote) {
                        break; // A doubled quote stands for itself; a single one closes.
                    } else {
                        text.push(quote);
                    }
                }
            }
        }
        let separator = match style {
            Style::Whole => None,
            Style::List => Some(','),
            Style::Labelled => Some('#'),
        };
        let next = self.peek();
        if self.ends_here(style)
            || self.rest().trim().is_empty()
            || next.is_some_and(|c| Some(c) == separator)
            || (self.nested > 0 && matches!(next, Some(',' | ')')))
        {
            return Ok(Piece { text, at: start, quote: Some(quote) });
        }
        let message =
            format!("expected the end of this part after the quote, got {}", self.found());
        Err(self.fault(self.at, message).with_hint(DOUBLED))
    }

    fn unquoted(&mut self, style: Style, labelled: bool) -> Result<Piece> {
        let start = self.at;
        let mut open: Vec<char> = Vec::new();
        while let Some(c) = self.peek() {
            if plus_between_spaces(self.rest()) {
                break;
            }
            match c {
                ',' if style == Style::List => break,
                '#' if style == Style::Labelled && !labelled => break,
                _ => {}
            }
            if self.nested > 0 {
                match c {
                    '\\' => self.at += 1,
                    '(' => open.push(')'),
                    '[' => open.push(']'),
                    '{' => open.push('}'),
                    ')' | ']' | '}' if open.last() == Some(&c) => {
                        open.pop();
                    }
                    ')' if open.is_empty() => break,
                    ',' if open.is_empty()
                        && !(style == Style::Labelled && next_url(self.rest())) =>
                    {
                        break;
                    }
                    _ => {}
                }
            }
            self.at += self.peek().map_or(0, char::len_utf8);
        }
        let raw = &self.text[start..self.at];
        let at = start + (raw.len() - raw.trim_start().len());
        Ok(Piece { text: raw.trim().into(), at, quote: None })
    }

    /// Whether the part ends at the cursor, whatever a comma or hash there would mean otherwise.
    fn ends_here(&self, style: Style) -> bool {
        let rest = self.rest();
        if rest.is_empty() || plus_between_spaces(rest) {
            return true;
        }
        // Inside a function `a,b` is one list and `a, b` are two arguments.
        style == Style::List
            && self.nested > 0
            && rest.strip_prefix(',').is_some_and(|next| next.starts_with(char::is_whitespace))
    }
}

/// What can be done about a quote that closes too early or never.
const DOUBLED: &str =
    "a quote closes what it opens; inside, a doubled one stands for itself: 'it''s'";

fn plus_between_spaces(rest: &str) -> bool {
    let inner = rest.trim_start();
    inner.len() < rest.len()
        && inner.strip_prefix('+').is_some_and(|after| after.starts_with(char::is_whitespace))
}

/// Whether a comma is followed by another server's address.
pub(super) fn next_url(rest: &str) -> bool {
    let Some(next) = rest.strip_prefix(',') else { return false };
    let next = next.trim_start();
    let next = next.split_once('+').map_or(next, |(word, address)| {
        if word.bytes().all(|b| b.is_ascii_lowercase()) { address } else { next }
    });
    next.starts_with("http://") || next.starts_with("https://")
}
