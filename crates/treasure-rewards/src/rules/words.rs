//! `contains:a,b` and `avoids:a,b`: the share of the words that the text has, or has not.
//!
//! A word or phrase is found as a whole, in any case: `ass` is not in "class", `The` is in "the". Written twice
//! it counts once. Of a phrase that is not there, `contains:` counts the longest run of its words that is.

use std::{collections::HashSet, sync::Arc};

use super::{Scheme, one_by_one};
use crate::spec::Style;

pub(super) const CONTAINS: Scheme = Scheme {
    name: "contains",
    style: Style::List,
    wants: "words with commas between",
    missing: None,
    check: |_| Ok(()),
    build: |name, words| Ok(Arc::new(Contains::new(name, words))),
};

pub(super) const AVOIDS: Scheme = Scheme {
    name: "avoids",
    build: |name, words| Ok(Arc::new(Avoids::new(name, words))),
    ..CONTAINS
};

/// Words and phrases in lower case, each once.
#[derive(Debug)]
struct Words(Vec<String>);

impl Words {
    fn new(words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut seen = HashSet::new();
        let words = words.into_iter().map(|word| word.as_ref().to_lowercase());
        Self(words.filter(|word| seen.insert(word.clone())).collect())
    }

    /// The mean over the words of what `count` says of each; 1 if there are none.
    fn mean(&self, text: &str, count: impl Fn(&str, &str) -> f64) -> f64 {
        let text = text.to_lowercase();
        let sum: f64 = self.0.iter().map(|word| count(word, &text)).sum();
        if self.0.is_empty() { 1.0 } else { sum / self.0.len() as f64 }
    }
}

/// Whether `word` occurs in `text` and is not the inside of a longer word.
fn stands_in(word: &str, text: &str) -> bool {
    let joins = |inner: Option<char>, outer: Option<char>| {
        inner.is_some_and(char::is_alphanumeric) && outer.is_some_and(char::is_alphanumeric)
    };
    let mut from = 0;
    // One character on after each find, since two may overlap.
    while let Some(found) = text[from..].find(word) {
        let (start, end) = (from + found, from + found + word.len());
        if !joins(word.chars().next(), text[..start].chars().next_back())
            && !joins(word.chars().next_back(), text[end..].chars().next())
        {
            return true;
        }
        match text[start..].chars().next() {
            Some(c) => from = start + c.len_utf8(),
            None => break,
        }
    }
    false
}

/// 1 if `phrase` stands in `text`, else the share of its words in their longest run that does.
fn share(phrase: &str, text: &str) -> f64 {
    if stands_in(phrase, text) {
        return 1.0;
    }
    let words: Vec<&str> = phrase.split_whitespace().collect();
    let longest = (1..words.len())
        .rev()
        .find(|&size| words.windows(size).any(|run| stands_in(&run.join(" "), text)));
    longest.unwrap_or(0) as f64 / words.len().max(1) as f64
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

    fn of(&self, text: &str) -> f64 {
        self.words.mean(text, share)
    }
}

one_by_one!(Contains);

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

    fn of(&self, text: &str) -> f64 {
        let found = |word: &str, text: &str| f64::from(stands_in(word, text));
        match self.words.0.as_slice() {
            [] => 1.0,
            _ => 1.0 - self.words.mean(text, found),
        }
    }
}

one_by_one!(Avoids);
