//! What a reward reads of a complete sequence: its view, and who makes it.

use std::collections::HashSet;

use crate::{Result, TokenId};

/// What a reward sees of a complete sequence. Equal views have equal rewards, so they are scored once:
/// tokens behind the first EOS or outside a text window do not enter the view.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum View {
    /// The token ids themselves.
    Tokens(Box<[TokenId]>),
    /// Text, for rewards with their own tokenizer.
    Text(Box<str>),
}

impl View {
    /// The share of distinct bigrams: of lower-cased words, marks and line ends in a text, of tokens
    /// elsewhere. Every mark and line end counts by itself, so that a row of them is a repetition. What is
    /// too short to have a bigram has nothing repeated, and counts 1.
    pub fn variety(&self) -> f64 {
        fn share<T: Eq + std::hash::Hash>(items: &[T]) -> f64 {
            let pairs = items.len().saturating_sub(1);
            if pairs == 0 {
                return 1.0;
            }
            let distinct: HashSet<_> = items.windows(2).collect();
            distinct.len() as f64 / pairs as f64
        }
        match self {
            Self::Tokens(tokens) => share(tokens),
            Self::Text(text) => share(&pieces(&text.to_lowercase())),
        }
    }
}

/// The words of a text, and every mark and line end by itself.
fn pieces(text: &str) -> Vec<&str> {
    let of_word = |c: char| c.is_alphanumeric() || c == '\'' || c == '’';
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match of_word(first) {
            true => rest.find(|c| !of_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        if first == '\n' || !first.is_whitespace() {
            out.push(piece);
        }
        rest = after;
    }
    out
}

/// How a complete sequence becomes what a reward sees of it.
pub trait Reader: Send + Sync {
    /// What is seen of a sequence.
    fn view(&self, tokens: &[TokenId]) -> Result<View>;
}

/// Reads the tokens themselves.
pub struct AllTokens;

impl Reader for AllTokens {
    fn view(&self, tokens: &[TokenId]) -> Result<View> {
        Ok(View::Tokens(tokens.into()))
    }
}
