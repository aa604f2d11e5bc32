//! `contains:a,b` and `avoids:a,b`: the share of the words that the text has, or has not.
//!
//! A word or phrase is found as a whole, in any case: `ass` is not in "class", `The` is in "the".

use crate::{Range, Result, TextReward};

/// How many of some words a text has.
#[derive(Debug)]
struct Words {
    lowercase: Vec<String>,
}

impl Words {
    fn new(words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { lowercase: words.into_iter().map(|word| word.as_ref().to_lowercase()).collect() }
    }

    /// The share of the words that stand in the text.
    fn share(&self, text: &str) -> f64 {
        if self.lowercase.is_empty() {
            return 1.0;
        }
        let text = text.to_lowercase();
        let found = self.lowercase.iter().filter(|word| stands_in(word, &text)).count();
        found as f64 / self.lowercase.len() as f64
    }
}

/// Whether `word` occurs in `text` and is not the inside of a longer word.
fn stands_in(word: &str, text: &str) -> bool {
    let continues = |inner: Option<char>, outer: Option<char>| matches!((inner, outer), (Some(a), Some(b)) if a.is_alphanumeric() && b.is_alphanumeric());
    text.match_indices(word).any(|(start, found)| {
        let before = text[..start].chars().next_back();
        let after = text[start + found.len()..].chars().next();
        !continues(word.chars().next(), before) && !continues(word.chars().next_back(), after)
    })
}

/// The share of some words that a text has.
#[derive(Debug)]
pub struct Contains {
    name: String,
    words: Words,
}

impl Contains {
    /// A reward called `name` for having `words`.
    pub fn new(name: impl Into<String>, words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { name: name.into(), words: Words::new(words) }
    }
}

impl TextReward for Contains {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(texts.iter().map(|text| self.words.share(text)).collect())
    }

    fn range(&self) -> Range {
        Range::UNIT
    }
}

/// The share of some words that a text has not.
#[derive(Debug)]
pub struct Avoids {
    name: String,
    words: Words,
}

impl Avoids {
    /// A reward called `name` for not having `words`.
    pub fn new(name: impl Into<String>, words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { name: name.into(), words: Words::new(words) }
    }
}

impl TextReward for Avoids {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, texts: &[&str]) -> Result<Vec<f64>> {
        let missing = |text: &&str| {
            if self.words.lowercase.is_empty() { 1.0 } else { 1.0 - self.words.share(text) }
        };
        Ok(texts.iter().map(missing).collect())
    }

    fn range(&self) -> Range {
        Range::UNIT
    }
}
