//! Text to token ids and back.
//!
//! Guarantees: nothing is truncated or padded behind the caller's back, and a *fragment* (the middle of a
//! text) is encoded and decoded without the space that SentencePiece-style tokenizers put in front of a text.

mod fragment;
mod special;
mod split;

use tokenizers::Tokenizer as Inner;

pub use special::Specials;
pub use split::{SplitRule, byte_level_json};

use crate::{Error, Result, automata::TokenBytes};

/// A tokenizer.
pub struct Tokenizer {
    whole: Inner,
    fragment: Inner,
    known: Vec<bool>,
    specials: Specials,
    name: String,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({}, {} entries)", self.name, self.size())
    }
}

/// A merge that can give no token: its second part lacks the prefix that is taken off, or both are longer than any
/// token. The library would panic.
fn merge_of_no_token(model: &serde_json::Value) -> Option<&serde_json::Value> {
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or_default();
    let longest = model["vocab"].as_object()?.keys().map(String::len).max().unwrap_or(0);
    let gives_none = |merge: &&serde_json::Value| {
        let parts = match merge.as_str() {
            Some(line) if line.starts_with("#version") => None,
            Some(line) => line.split_once(' '),
            None => merge[0].as_str().zip(merge[1].as_str()),
        };
        parts.is_some_and(|(first, second)| {
            let rest = second.strip_prefix(prefix);
            rest.is_none_or(|rest| first.len() + rest.len() > longest)
        })
    };
    model["merges"].as_array()?.iter().find(gives_none)
}

impl Tokenizer {
    /// Parses the text of a `tokenizer.json`; `place` is its name for messages.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let json = serde_json::from_str(text).map_err(|source| {
            Error::new(format!("{place}: is not JSON")).with_source(source).of_file()
        })?;
        Self::from_json(json, place, Specials::default())
    }

    /// A tokenizer from the JSON of a `tokenizer.json`; `place` is its name for messages.
    pub fn from_json(
        mut json: serde_json::Value,
        place: &str,
        mut specials: Specials,
    ) -> Result<Self> {
        // A file may ask for truncation or padding; callers decide about lengths.
        if let Some(object) = json.as_object_mut() {
            object.insert("truncation".to_owned(), serde_json::Value::Null);
            object.insert("padding".to_owned(), serde_json::Value::Null);
        }
        let malformed = |source: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(format!("{place}: is not a tokenizer that can be read"))
                .with_source(source)
                .of_file()
        };
        if let Some(merge) = merge_of_no_token(&json["model"]) {
            let wanted = "merges that give tokens of the vocabulary";
            return Err(Error::expected(place, wanted, merge).of_file());
        }
        let parse = |json: &serde_json::Value| -> Result<Inner> {
            let bytes = serde_json::to_vec(json).map_err(|source| malformed(source.into()))?;
            Inner::from_bytes(bytes).map_err(malformed)
        };
        let whole = parse(&json)?;
        let fragment = if fragment::strip(&mut json) { parse(&json)? } else { whole.clone() };
        let vocabulary = whole.get_vocab(true);
        if vocabulary.is_empty() {
            return Err(Error::expected(place, "a vocabulary", "an empty one").of_file());
        }
        let largest = vocabulary.values().copied().max().unwrap_or(0);
        if largest as usize > vocabulary.len().saturating_mul(64) + (1 << 20) {
            return Err(Error::expected(
                format!("{place}: largest token id"),
                format!("near the {} entries", vocabulary.len()),
                largest,
            )
            .of_file());
        }
        let mut known = vec![false; largest as usize + 1];
        vocabulary.values().for_each(|&id| known[id as usize] = true);
        specials.complete(&whole);
        Ok(Self { whole, fragment, known, specials, name: place.to_owned() })
    }

    /// One more than the largest id.
    pub fn size(&self) -> usize {
        self.known.len()
    }

    /// Whether the vocabulary has this id.
    pub fn knows(&self, id: u32) -> bool {
        self.known.get(id as usize).copied().unwrap_or(false)
    }

    /// The special tokens.
    pub fn specials(&self) -> &Specials {
        &self.specials
    }

    /// Every token that decoding leaves out, in increasing order.
    pub fn special_ids(&self) -> Vec<u32> {
        let added = self.whole.get_added_tokens_decoder();
        let special = added.iter().filter(|(_, token)| token.special).map(|(&id, _)| id);
        let mut ids: Vec<u32> = special.collect();
        ids.sort_unstable();
        ids
    }

    /// The ids of a text, with or without the special tokens its model was trained to see around it.
    pub fn encode(&self, text: &str, special_tokens: bool) -> Result<Vec<u32>> {
        encode(&self.whole, text, special_tokens, &self.name)
    }

    /// The ids of a piece from the middle of a text: no special tokens, no leading dummy space.
    pub fn encode_fragment(&self, text: &str) -> Result<Vec<u32>> {
        encode(&self.fragment, text, false, &self.name)
    }

    /// The text of whole sequences; special tokens stay out of it.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        decode(&self.whole, ids, true, &self.name)
    }

    /// The text of ids from the middle of a sequence: a leading space stays, special tokens stay out.
    pub fn decode_fragment(&self, ids: &[u32]) -> Result<String> {
        decode(&self.fragment, ids, true, &self.name)
    }

    /// The text of one token, special tokens included; `None` if the vocabulary has no such id.
    pub fn token_text(&self, id: u32) -> Option<String> {
        if !self.knows(id) {
            return None;
        }
        let text = self.fragment.decode(&[id], false).ok().filter(|text| !text.is_empty());
        text.or_else(|| self.whole.id_to_token(id))
    }

    /// The bytes of every token, for constraints.
    pub fn bytes(&self) -> Result<TokenBytes> {
        TokenBytes::read(&self.whole)
    }

    /// The entry of the vocabulary as stored (with `Ġ` or `▁` for a space).
    pub fn entry(&self, id: u32) -> Option<String> {
        self.whole.id_to_token(id)
    }

    /// The id of a vocabulary entry as stored.
    pub fn id(&self, entry: &str) -> Option<u32> {
        self.whole.token_to_id(entry)
    }

    /// Compares the vocabulary with a model's embedding of `rows` rows: no id may lie outside it, and no
    /// more than usual padding may be left over.
    pub fn check_against(&self, rows: usize) -> Result<()> {
        let left_over = rows.saturating_sub(self.size());
        // Embeddings are padded to round sizes; published ones leave less than 1/64 unused.
        let padding = (rows / 64).max(127.min(rows / 8));
        if self.size() <= rows && left_over <= padding {
            return Ok(());
        }
        Err(Error::new(format!(
            "tokenizer: vocabulary has {} entries, the model expects {rows}",
            self.size()
        ))
        .with_hint("name the tokenizer that belongs to the model"))
    }
}

fn encode(inner: &Inner, text: &str, special_tokens: bool, name: &str) -> Result<Vec<u32>> {
    let encoding = inner.encode(text, special_tokens).map_err(|source| {
        Error::new(format!("{name}: cannot encode the text")).with_source(source)
    })?;
    Ok(encoding.get_ids().to_vec())
}

fn decode(inner: &Inner, ids: &[u32], skip_special: bool, name: &str) -> Result<String> {
    inner
        .decode(ids, skip_special)
        .map_err(|source| Error::new(format!("{name}: cannot decode the ids")).with_source(source))
}
