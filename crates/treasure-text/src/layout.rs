//! Where a sequence's fixed text and its holes are, and the text that a complete sequence stands for.
//!
//! Guarantee: fixed text appears byte for byte as the user wrote it; it is never decoded from tokens.
//! A hole reads up to its first EOS.

use treasure_core::TokenId;

use crate::{Error, Result, Tokenizer};

/// Turns token ids into text.
pub trait Detokenize: Send + Sync {
    /// The text of a run of tokens, special tokens left out.
    fn decode(&self, ids: &[TokenId]) -> Result<String>;
}

impl Detokenize for Tokenizer {
    fn decode(&self, ids: &[TokenId]) -> Result<String> {
        self.decode(ids)
    }
}

/// A stretch of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text the user wrote.
    Fixed {
        /// The text, verbatim.
        text: String,
        /// How many positions of the sequence it takes, special tokens included.
        tokens: usize,
    },
    /// Positions the model fills.
    Hole {
        /// How many.
        tokens: usize,
        /// Whether a space at its start is dropped, because white space before it is already in the text.
        drop_leading_space: bool,
    },
}

/// The stretches of a sequence, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pieces: Vec<Piece>,
}

/// A complete sequence as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The whole text.
    pub text: String,
    /// How many bytes of it are the fixed text at the start; the continuation is the rest.
    pub prompt_bytes: usize,
    /// The generated ids, each hole up to its first EOS.
    pub tokens: Vec<TokenId>,
}

impl Rendered {
    /// The text after the prompt.
    pub fn continuation(&self) -> &str {
        &self.text[self.prompt_bytes..]
    }
}

/// Decoders look at most this many tokens back to decide about a space.
const CONTEXT: usize = 4;

impl Layout {
    /// A prompt of `prompt_tokens` positions (special tokens included), then `generated` to fill.
    pub fn prompt(text: impl Into<String>, prompt_tokens: usize, generated: usize) -> Self {
        Self {
            pieces: vec![
                Piece::Fixed { text: text.into(), tokens: prompt_tokens },
                Piece::Hole { tokens: generated, drop_leading_space: false },
            ],
        }
    }

    /// Fixed text and holes in any order. A hole after white space drops its own leading space.
    pub fn template(pieces: impl IntoIterator<Item = Piece>) -> Self {
        let mut after_space = false;
        let pieces = pieces.into_iter().map(|piece| match piece {
            Piece::Fixed { text, tokens } => {
                if !text.is_empty() {
                    after_space = text.ends_with(char::is_whitespace);
                }
                Piece::Fixed { text, tokens }
            }
            Piece::Hole { tokens, drop_leading_space } => {
                let drop_leading_space = drop_leading_space || after_space;
                after_space = false;
                Piece::Hole { tokens, drop_leading_space }
            }
        });
        Self { pieces: pieces.collect() }
    }

    /// The stretches.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The number of positions.
    pub fn len(&self) -> usize {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Fixed { tokens, .. } | Piece::Hole { tokens, .. } => *tokens,
            })
            .sum()
    }

    /// Whether there is no position at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of a complete sequence; holes end at any of `eos`. At most `trim` generated tokens are
    /// read, if it is given.
    pub fn render(
        &self,
        detokenizer: &dyn Detokenize,
        tokens: &[TokenId],
        eos: &[TokenId],
        trim: Option<usize>,
    ) -> Result<Rendered> {
        if tokens.len() != self.len() {
            let message = format!(
                "the layout has {} positions, the sequence has {}",
                self.len(),
                tokens.len()
            );
            return Err(Error::new(message));
        }
        let mut rendered = Rendered { text: String::new(), prompt_bytes: 0, tokens: Vec::new() };
        let mut at = 0;
        let mut left = trim.unwrap_or(usize::MAX);
        for (index, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Fixed { text, tokens } => {
                    rendered.text.push_str(text);
                    at += tokens;
                    if index == 0 {
                        rendered.prompt_bytes = text.len();
                    }
                }
                Piece::Hole { tokens: count, drop_leading_space } => {
                    let hole = &tokens[at..at + count];
                    let hole = &hole[..left.min(hole.len())];
                    left -= hole.len();
                    let end = hole.iter().position(|token| eos.contains(token));
                    let read = &hole[..end.unwrap_or(hole.len())];
                    let before = &tokens[at.saturating_sub(CONTEXT)..at];
                    let text = decode_after(detokenizer, before, read)?;
                    let text = match drop_leading_space {
                        true => text.strip_prefix(' ').unwrap_or(&text),
                        false => &text,
                    };
                    rendered.text.push_str(text);
                    rendered.tokens.extend_from_slice(read);
                    at += count;
                }
            }
        }
        Ok(rendered)
    }
}

/// The text of `ids` where they follow `before`: decoders drop a word's leading space at the start of a
/// text, so a run decoded alone would lose the space between it and the text before.
fn decode_after(
    detokenizer: &dyn Detokenize,
    before: &[TokenId],
    ids: &[TokenId],
) -> Result<String> {
    if ids.is_empty() {
        return Ok(String::new());
    }
    let context = detokenizer.decode(before)?;
    let joined = detokenizer.decode(&[before, ids].concat())?;
    match joined.strip_prefix(&context) {
        Some(text) => Ok(text.into()),
        // A character split between the two has no text of its own on either side.
        None => detokenizer.decode(ids),
    }
}
