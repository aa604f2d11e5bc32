//! A partly masked sequence as text, position by position.
//!
//! Guarantee: what the user wrote appears as it was written, and the texts of a complete sequence join
//! to what [`Layout::render`](treasure::rewards::Layout::render) makes of it.

use std::{collections::HashMap, sync::Arc};

use treasure::{
    core::TokenId,
    text::{Piece, Start, TextModel},
};

/// What a mask looks like.
pub(crate) const MASK: char = '░';

/// Tokens that are read together; decoders look at most [`CONTEXT`] tokens back.
const CHUNK: usize = 8;
const CONTEXT: usize = 4;
/// Tokens that one character can take beyond a chunk.
const LONGEST_CHARACTER: usize = 4;
/// Chunks that are remembered.
const REMEMBERED: usize = 4_096;

/// A position as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spelt {
    /// Nothing is decided here.
    Mask,
    /// The user wrote it.
    Given(String),
    /// The search wrote it.
    Written(String),
    /// It ends the text.
    End,
    /// It stands behind the end of the text and is not part of it.
    Behind,
}

/// Which part of a text a client is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// What follows the prompt.
    Continuation,
    /// All of it.
    Whole,
    /// What stands between prompt and suffix.
    Middle,
}

/// How the sequences of one start are spelt.
pub(crate) struct Spell {
    model: Arc<dyn TextModel>,
    pieces: Vec<Piece>,
    ends: Vec<TokenId>,
    chunks: HashMap<(Vec<TokenId>, Vec<TokenId>), Vec<String>>,
}

impl Spell {
    pub fn new(model: Arc<dyn TextModel>, start: &Start) -> Self {
        let (pieces, ends) = (start.layout.pieces().to_vec(), start.ends.clone());
        Self { model, pieces, ends, chunks: HashMap::new() }
    }

    /// Positions before the first hole.
    fn given(&self) -> usize {
        match self.pieces.first() {
            Some(Piece::Fixed { tokens, .. }) => *tokens,
            _ => 0,
        }
    }

    /// Every position as text.
    pub fn spell(&mut self, slots: &[Option<TokenId>]) -> Vec<Spelt> {
        let mut out: Vec<Spelt> = Vec::with_capacity(slots.len());
        // Fixed text without a position of its own goes to the position after it.
        let mut homeless = String::new();
        for piece in self.pieces.clone() {
            match piece {
                Piece::Fixed { text, tokens } => {
                    homeless.push_str(&text);
                    for _ in 0..tokens {
                        out.push(Spelt::Given(std::mem::take(&mut homeless)));
                    }
                }
                Piece::Hole { tokens, drop_leading_space } => {
                    let at = out.len();
                    let end = (at + tokens).min(slots.len());
                    self.hole(slots, at..end, drop_leading_space, &mut out);
                    let before = std::mem::take(&mut homeless);
                    if let Some(Spelt::Written(text)) = out.get_mut(at) {
                        text.insert_str(0, &before);
                    }
                }
            }
        }
        if let Some(Spelt::Given(text) | Spelt::Written(text)) = out.last_mut() {
            text.push_str(&homeless);
        }
        out
    }

    fn hole(
        &mut self,
        slots: &[Option<TokenId>],
        hole: std::ops::Range<usize>,
        drop_leading_space: bool,
        out: &mut Vec<Spelt>,
    ) {
        let mut at = hole.start;
        while at < hole.end {
            let written = slots[at..hole.end]
                .iter()
                .map_while(|slot| slot.filter(|token| !self.ends.contains(token)));
            let run: Vec<TokenId> = written.collect();
            let context: Vec<TokenId> =
                slots[..at].iter().rev().take(CONTEXT).map_while(|slot| *slot).collect();
            let context: Vec<TokenId> = context.into_iter().rev().collect();
            let mut texts = self.run(&context, &run);
            if drop_leading_space
                && at == hole.start
                && let Some(first) = texts.first_mut()
                && first.starts_with(' ')
            {
                first.remove(0);
            }
            out.extend(texts.into_iter().map(Spelt::Written));
            at += run.len();
            if at < hole.end && slots[at].is_some() {
                out.push(Spelt::End);
                out.extend(std::iter::repeat_n(Spelt::Behind, hole.end - at - 1));
                return;
            }
            while at < hole.end && slots[at].is_none() {
                out.push(Spelt::Mask);
                at += 1;
            }
        }
    }

    /// Each token of a run as text, where the run follows `before`.
    fn run(&mut self, before: &[TokenId], ids: &[TokenId]) -> Vec<String> {
        let mut texts = Vec::with_capacity(ids.len());
        let mut at = 0;
        while at < ids.len() {
            let earlier: Vec<TokenId> = before.iter().chain(&ids[..at]).copied().collect();
            let context = earlier[earlier.len().saturating_sub(CONTEXT)..].to_vec();
            let mut end = (at + CHUNK).min(ids.len());
            // A character may need tokens of the next chunk.
            let longest = (end + LONGEST_CHARACTER).min(ids.len());
            while end < longest && self.after(&context, &ids[at..end]).ends_with('\u{FFFD}') {
                end += 1;
            }
            texts.extend(self.chunk(context, &ids[at..end]));
            at = end;
        }
        texts
    }

    fn chunk(&mut self, context: Vec<TokenId>, ids: &[TokenId]) -> Vec<String> {
        let key = (context, ids.to_vec());
        if let Some(known) = self.chunks.get(&key) {
            return known.clone();
        }
        let whole = self.after(&key.0, ids);
        let mut texts = Vec::with_capacity(ids.len());
        let mut from = 0;
        for count in 1..=ids.len() {
            let to = match count == ids.len() {
                true => whole.len(),
                false => common_prefix(&self.after(&key.0, &ids[..count]), &whole).max(from),
            };
            texts.push(whole[from..to].to_owned());
            from = to;
        }
        if self.chunks.len() >= REMEMBERED {
            self.chunks.clear();
        }
        self.chunks.insert(key, texts.clone());
        texts
    }

    /// The text of `ids` where they follow `before`: decoders treat the start of a text apart.
    fn after(&self, before: &[TokenId], ids: &[TokenId]) -> String {
        if before.is_empty() {
            let tokenizer = self.model.tokenizer();
            return tokenizer.and_then(|it| it.decode_fragment(ids)).unwrap_or_default();
        }
        let context = self.model.decode(before).unwrap_or_default();
        let joined = self.model.decode(&[before, ids].concat()).unwrap_or_default();
        match joined.strip_prefix(&context) {
            Some(text) => text.to_owned(),
            None => self.model.decode(ids).unwrap_or_default(),
        }
    }

    /// The part of a spelt sequence that a client is shown, masks as [`MASK`].
    pub fn text(&self, spelt: &[Spelt], shown: Shown) -> String {
        let first = self.given();
        let last = match (shown, self.pieces.get(1)) {
            (Shown::Middle, Some(Piece::Hole { tokens, .. })) => first + tokens,
            _ => spelt.len(),
        };
        let from = if shown == Shown::Whole { 0 } else { first };
        let mut text = String::new();
        for position in spelt.get(from..last.min(spelt.len())).unwrap_or_default() {
            match position {
                Spelt::Mask => text.push(MASK),
                Spelt::Given(given) => text.push_str(given),
                Spelt::Written(written) => text.push_str(written),
                Spelt::End | Spelt::Behind => {}
            }
        }
        text
    }

    /// The text of the first generated tokens, of which no more is known.
    pub fn beginning(&mut self, start: &[Option<TokenId>], tokens: &[TokenId]) -> String {
        let given = self.given();
        let mut slots: Vec<Option<TokenId>> = start.to_vec();
        for (slot, token) in slots[given.min(start.len())..].iter_mut().zip(tokens) {
            *slot = Some(*token);
        }
        let spelt = self.spell(&slots);
        let known = spelt.get(given..).unwrap_or_default().iter();
        known.take(tokens.len()).fold(String::new(), |text, position| match position {
            Spelt::Written(written) => text + written,
            _ => text,
        })
    }

    /// The text of one token by itself.
    pub fn token(&self, token: TokenId) -> String {
        let text = self.model.tokenizer().ok().and_then(|tokenizer| tokenizer.token_text(token));
        text.unwrap_or_else(|| format!("#{token}"))
    }

    /// Whether a token ends a text.
    pub fn is_end(&self, token: TokenId) -> bool {
        self.ends.contains(&token)
    }
}

/// The bytes that two texts begin with in common, whole characters only.
fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
