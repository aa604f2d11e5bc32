//! The bytes of every token, read from a Hugging Face tokenizer's decoder.
//!
//! Guarantee: wherever the joined bytes are UTF-8, they are what the tokenizer decodes, but for the start of
//! a text ([`Start`]). Three families are understood: byte-level BPE (GPT-2's map of bytes to characters),
//! SentencePiece (`▁` for a space, `<0xE2>` for a byte) and WordPiece (`##` continues a word). Others are refused.

use serde_json::Value;
use tokenizers::Tokenizer;
use treasure_core::TokenId;

use super::{Error, Result, Vocabulary};

/// What decoding does to the first token of a whole text; a text behind a prompt is not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing.
    AsIs,
    /// One leading space is dropped.
    DropsSpace,
    /// Every space inside the first token is dropped (SentencePiece's Metaspace decoder).
    DropsSpacesOfToken,
    /// The space before the first word is dropped; a first token that continues a word keeps its `##`.
    DropsWordSpace,
}

/// The bytes of every token, and what happens at the start of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBytes {
    /// By id; `None` for special tokens, which decoding leaves out, and for ids without a token.
    pub tokens: Vec<Option<Vec<u8>>>,
    /// What decoding does at the very start of a text.
    pub start: Start,
}

/// The vocabulary of a tokenizer whose special tokens are never placed, except those that end a text.
pub fn vocabulary(tokenizer: &Tokenizer, eos: &[TokenId]) -> Result<Vocabulary> {
    Vocabulary::new(TokenBytes::read(tokenizer)?.tokens, eos)
}

impl TokenBytes {
    /// Reads a tokenizer.
    pub fn read(tokenizer: &Tokenizer) -> Result<Self> {
        let decoder = tokenizer.get_decoder().map(serde_json::to_value);
        let decoder = decoder.and_then(std::result::Result::ok).unwrap_or(Value::Null);
        let steps = Steps::parse(&decoder)?;
        let entries = tokenizer.get_vocab(true);
        let size = entries.values().max().map_or(0, |&id| id as usize + 1);
        if size > entries.len().saturating_mul(64) + (1 << 20) {
            return Err(Error::Tokenizer {
                expected: format!("ids near its {} entries", entries.len()),
                got: format!("id {}", size - 1),
            });
        }
        let mut tokens = vec![None; size];
        for (entry, id) in entries {
            tokens[id as usize] = Some(steps.bytes(&entry));
        }
        for (id, added) in tokenizer.get_added_tokens_decoder() {
            if added.special {
                tokens[id as usize] = None;
            }
        }
        Ok(Self { tokens, start: steps.start })
    }

    /// The vocabulary for a model of `size` rows: ids beyond the tokenizer and those of `never` are
    /// never placed, those of `eos` end a text.
    pub fn vocabulary(
        &self,
        size: usize,
        eos: &[TokenId],
        never: &[TokenId],
    ) -> Result<Vocabulary> {
        if size < self.tokens.len() {
            return Err(Error::Input {
                what: "vocabulary",
                expected: format!("at least the tokenizer's {} entries", self.tokens.len()),
                got: size.to_string(),
            });
        }
        let silent = |id: usize| never.contains(&(id as TokenId));
        let token = |id: usize| self.tokens.get(id).cloned().flatten().filter(|_| !silent(id));
        Vocabulary::new((0..size).map(token), eos)
    }
}

/// What a decoder does to one token, in order.
struct Steps {
    steps: Vec<Step>,
    start: Start,
}

enum Step {
    Replace(String, String),
    ByteFallback,
    /// GPT-2's characters; the byte of every character below 512.
    ByteLevel(Box<[Option<u8>; 512]>),
    WordPiece {
        prefix: String,
        cleanup: bool,
    },
}

impl Steps {
    fn parse(decoder: &Value) -> Result<Self> {
        let mut this = Self { steps: Vec::new(), start: Start::AsIs };
        let parts = decoder.get("decoders").and_then(Value::as_array);
        let mut fused = false;
        for part in parts.map_or(std::slice::from_ref(decoder), Vec::as_slice) {
            let refused = || Error::Tokenizer {
                expected: "a decoder for byte-level BPE, SentencePiece or WordPiece".to_owned(),
                got: match part {
                    Value::Null => "none".to_owned(),
                    part => part.to_string().chars().take(120).collect(),
                },
            };
            let text = |key: &str| part.get(key).and_then(Value::as_str).map(str::to_owned);
            let number = |key: &str| part.get(key).and_then(Value::as_u64);
            match text("type").as_deref() {
                Some("Replace") => {
                    let pattern = part.pointer("/pattern/String").and_then(Value::as_str);
                    let pattern = pattern.filter(|pattern| !pattern.is_empty());
                    let (Some(pattern), Some(content)) = (pattern, text("content")) else {
                        return Err(refused());
                    };
                    this.steps.push(Step::Replace(pattern.to_owned(), content));
                }
                Some("ByteFallback") => this.steps.push(Step::ByteFallback),
                Some("Fuse") => fused = true,
                // Behind Fuse it sees the whole text, before it every token.
                Some("Strip") if fused && number("stop") == Some(0) => match number("start") {
                    Some(0) => {}
                    Some(1) if text("content").as_deref() == Some(" ") => {
                        this.start = Start::DropsSpace;
                    }
                    _ => return Err(refused()),
                },
                Some("Metaspace") => {
                    let replacement = text("replacement").ok_or_else(refused)?;
                    this.steps.push(Step::Replace(replacement, " ".to_owned()));
                    if text("prepend_scheme").as_deref() != Some("never") {
                        this.start = Start::DropsSpacesOfToken;
                    }
                }
                Some("ByteLevel") => this.steps.push(Step::ByteLevel(byte_level())),
                Some("WordPiece") => {
                    let prefix = text("prefix").filter(|prefix| !prefix.is_empty());
                    let cleanup = part.get("cleanup").and_then(Value::as_bool).unwrap_or(true);
                    let prefix = prefix.ok_or_else(refused)?;
                    this.steps.push(Step::WordPiece { prefix, cleanup });
                    this.start = Start::DropsWordSpace;
                }
                _ => return Err(refused()),
            }
        }
        Ok(this)
    }

    fn bytes(&self, entry: &str) -> Vec<u8> {
        let mut text = entry.to_owned();
        for step in &self.steps {
            match step {
                Step::Replace(from, to) => text = text.replace(from, to),
                Step::ByteFallback => {
                    if let Some(byte) = byte_of_fallback(&text) {
                        return vec![byte];
                    }
                }
                Step::ByteLevel(map) => {
                    let byte = |c: char| map.get(c as usize).copied().flatten();
                    // Added tokens may hold characters that are not in the map; then they mean themselves.
                    return match text.chars().map(byte).collect::<Option<Vec<u8>>>() {
                        Some(bytes) => bytes,
                        None => text.into_bytes(),
                    };
                }
                Step::WordPiece { prefix, cleanup } => {
                    text = match text.strip_prefix(prefix.as_str()) {
                        Some(rest) => rest.to_owned(),
                        None => format!(" {text}"),
                    };
                    if *cleanup {
                        text = cleaned_up(text);
                    }
                }
            }
        }
        text.into_bytes()
    }
}

/// `<0xE2>` as the byte it stands for.
fn byte_of_fallback(entry: &str) -> Option<u8> {
    let digits = entry.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The byte of every character of byte-level BPE: printable ones are themselves, the others follow from 256 on.
fn byte_level() -> Box<[Option<u8>; 512]> {
    let mut map = Box::new([None; 512]);
    let mut others = 256;
    for byte in 0..=255u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let character = if printable { usize::from(byte) } else { others };
        others += usize::from(!printable);
        map[character] = Some(byte);
    }
    map
}

/// WordPiece's decoder takes out spaces before punctuation, token by token.
fn cleaned_up(text: String) -> String {
    let joined = [" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're"];
    let text = joined.iter().fold(text, |text, spaced| text.replace(spaced, &spaced[1..]));
    text.replace(" ' ", "'").replace(" do not", " don't")
}
