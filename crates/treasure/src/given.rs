//! A finished text to make better: what must stay of it is fixed text, the rest are holes that it fills.
//!
//! Guarantee: the given tokens read as the given text, byte for byte; a text that the tokenizer cannot write back is
//! refused.

use regex::Regex;
use treasure_core::TokenId;
use treasure_text::{Part, Start, TextModel};

use crate::{Error, Result};

/// A finished text, the prompt that it was written from, and a pattern of what must stay beside that.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub text: String,
    pub prompt: String,
    pub keep: Option<String>,
}

impl Given {
    /// The text of a request, with the prompt that it begins with.
    pub(crate) fn new(text: String, prompt: String, keep: Option<String>) -> Result<Self> {
        if text.trim().is_empty() {
            return Err(Error::request("text: expected a text to refine, got an empty one")
                .with_hint("give the words that are to become better"));
        }
        if !text.starts_with(&prompt) {
            return Err(Error::request(format!(
                "text: expected one that begins with the prompt {prompt:?}, got {text:?}"
            ))
            .with_hint("leave the prompt out, or give the text that was written from it"));
        }
        let given = Self { text, prompt, keep };
        given.pieces()?;
        Ok(given)
    }

    fn pattern(&self) -> Result<Option<Regex>> {
        let compile = |keep: &String| {
            Regex::new(keep).map_err(|error| {
                Error::request(format!(
                    "keep: expected a regular expression, got {keep:?}: {error}"
                ))
                .with_hint(r"a backslash makes a special character a plain one: a\(b")
            })
        };
        self.keep.as_ref().map(compile).transpose()
    }

    /// The text in pieces, each with whether it stays.
    fn pieces(&self) -> Result<Vec<(bool, &str)>> {
        let mut pieces = Vec::new();
        let mut at = self.prompt.len();
        if at > 0 {
            pieces.push((true, &self.text[..at]));
        }
        if let Some(pattern) = self.pattern()? {
            let found = pattern.find_iter(&self.text).filter(|found| !found.is_empty());
            let mut found = found.peekable();
            if found.peek().is_none() {
                return Err(Error::request("keep: expected a match in the text, got none")
                    .with_hint("write a pattern that the text has, capitals as they are there"));
            }
            for found in found.filter(|found| found.end() > self.prompt.len()) {
                let start = found.start().max(at);
                if start > at {
                    pieces.push((false, &self.text[at..start]));
                }
                pieces.push((true, &self.text[start..found.end()]));
                at = found.end();
            }
        }
        if at < self.text.len() {
            pieces.push((false, &self.text[at..]));
        }
        if pieces.iter().all(|(stays, _)| *stays) {
            let what = if self.keep.is_some() { "keep" } else { "text" };
            let message = format!("{what}: expected something left to change, got all of the text");
            return Err(Error::request(message).with_hint("keep less of it"));
        }
        Ok(pieces)
    }

    /// What stays at its beginning.
    pub(crate) fn begins(&self) -> Result<&str> {
        Ok(match self.pieces()?.first() {
            Some(&(true, piece)) => piece,
            _ => "",
        })
    }

    /// Fixed parts and holes, and what fills the holes now.
    fn parts(&self, model: &dyn TextModel) -> Result<(Vec<Part>, Vec<TokenId>)> {
        let tokenizer = model.tokenizer()?;
        let (mut parts, mut filled): (Vec<Part>, Vec<TokenId>) = Default::default();
        let mut after_space = false;
        for (stays, piece) in self.pieces()? {
            if stays {
                after_space = piece.ends_with(' ');
                parts.push(Part::Fixed(piece.into()));
                continue;
            }
            let ids = match parts.is_empty() {
                true => tokenizer.encode(piece, false)?,
                // A space before a hole belongs to the hole's first token.
                false if after_space => tokenizer.encode_fragment(&format!(" {piece}"))?,
                false => tokenizer.encode_fragment(piece)?,
            };
            parts.push(Part::Hole { tokens: ids.len(), rule: None });
            filled.extend(ids);
            after_space = false;
        }
        Ok((parts, filled))
    }

    /// Where a search starts.
    pub(crate) fn start(&self, model: &dyn TextModel) -> Result<Start> {
        Ok(Start::template(model, &self.parts(model)?.0)?)
    }

    /// The text's own tokens in that state.
    pub(crate) fn tokens(&self, model: &dyn TextModel, start: &Start) -> Result<Vec<TokenId>> {
        let tokens = start.state.complete_with(self.parts(model)?.1);
        let read = start.layout.render(model, &tokens, &start.ends, None)?;
        if read.text != self.text {
            return Err(Error::request(format!(
                "text: the tokenizer reads it back as {:?}, got {:?}",
                read.text, self.text
            ))
            .with_hint("the text has characters that this model cannot write; replace them"));
        }
        Ok(tokens)
    }
}
