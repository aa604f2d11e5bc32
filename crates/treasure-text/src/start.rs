//! From text to the state a search starts in: fixed tokens, masks, and what may not be placed where.
//!
//! Fixed text is tokenised without a dummy prefix except at the start. A space before a hole belongs
//! to the hole's first token, so it stays in the text and the hole's own leading space is dropped.

use treasure_core::{Bans, Denoiser, MaskedSeq, TokenId};

use crate::{ChatTemplate, Detokenize, Error, Layout, Part, Piece, Result, Rule, Tokenizer};

/// A denoiser that reads and writes text.
pub trait TextModel: Denoiser + Detokenize {
    /// Its tokenizer.
    fn tokenizer(&self) -> Result<&Tokenizer>;

    /// The token a text begins with.
    fn bos_id(&self) -> Option<TokenId>;

    /// The token that ends a text.
    fn eos_id(&self) -> Option<TokenId>;

    /// Every token that ends a text, where there are several: an end of turn beside the end of text.
    fn end_ids(&self) -> Vec<TokenId> {
        self.eos_id().into_iter().collect()
    }

    /// How it writes conversations, if it can.
    fn chat(&self) -> Option<&ChatTemplate> {
        None
    }
}

/// Whose conventions a text follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conventions {
    /// This project's: a length counts generated tokens.
    #[default]
    Plain,
    /// The reference protocol's of FK steering: a length counts prompt and special tokens, too.
    Fk,
}

/// Where a search starts.
#[derive(Clone, Debug)]
pub struct Start {
    /// The state: fixed tokens and masks.
    pub state: MaskedSeq,
    /// Which positions are which text.
    pub layout: Layout,
    /// What may not be placed where.
    pub bans: Bans,
    /// Tokens that end the text; none in a template, whose text has its own end.
    pub ends: Vec<TokenId>,
    /// What each hole must be.
    pub rules: Vec<Option<Rule>>,
}

impl Start {
    /// A prompt under given conventions: the reference counts special tokens and prompt inside the
    /// length, the project does not.
    pub fn under(
        conventions: Conventions,
        model: &dyn TextModel,
        prompt: &str,
        length: usize,
        min_length: usize,
    ) -> Result<Self> {
        match conventions {
            Conventions::Plain => Self::prompt(model, prompt, length, min_length),
            Conventions::Fk => Self::whole(model, prompt, length, min_length),
        }
    }

    /// A prompt and `length` tokens after it, none of the first `min_length` an end of text.
    pub fn prompt(
        model: &dyn TextModel,
        prompt: &str,
        length: usize,
        min_length: usize,
    ) -> Result<Self> {
        let start = Self::assemble(model, &after(prompt, length), Around::Special)?;
        Ok(start.ending_after(min_length))
    }

    /// A prompt that a chat template wrote, special tokens and all, and `length` tokens after it.
    pub fn chat(
        model: &dyn TextModel,
        prompt: &str,
        length: usize,
        min_length: usize,
    ) -> Result<Self> {
        let start = Self::assemble(model, &after(prompt, length), Around::Nothing)?;
        Ok(start.ending_after(min_length))
    }

    /// A start whose last hole may end the text, but not too early.
    fn ending_after(mut self, min_length: usize) -> Self {
        let first = self.state.masked().next().unwrap_or(0);
        for &end in &self.ends {
            self.bans = self.bans.before(end, first + min_length);
        }
        self
    }

    /// A prompt in a sequence of `length` tokens, special tokens and prompt included.
    fn whole(
        model: &dyn TextModel,
        prompt: &str,
        length: usize,
        min_length: usize,
    ) -> Result<Self> {
        let taken = Self::prompt(model, prompt, 1, 0)?.state.len() - 1;
        if taken >= length {
            let what = format!("prompt {prompt:?}");
            return Err(Error::expected(what, format!("fewer than {length} tokens"), taken)
                .with_hint("raise the length: under the fk conventions it counts the prompt"));
        }
        let length = length - taken;
        Self::prompt(model, prompt, length, min_length.min(length))
    }

    /// The same where the text of its only hole must be something.
    #[must_use]
    pub fn with_rule(mut self, rule: Rule) -> Self {
        self.rules = vec![Some(rule)];
        self
    }

    /// A template. Its holes never end the text: the rest of the template follows.
    pub fn template(model: &dyn TextModel, parts: &[Part]) -> Result<Self> {
        let mut start = Self::assemble(model, parts, Around::Special)?;
        for end in std::mem::take(&mut start.ends) {
            start.bans = start.bans.everywhere(end);
        }
        Ok(start)
    }

    /// The text before the first hole.
    pub fn prompt_text(&self) -> &str {
        match self.layout.pieces().first() {
            Some(Piece::Fixed { text, .. }) => text,
            _ => "",
        }
    }

    /// Its ends are those of the model.
    fn assemble(model: &dyn TextModel, parts: &[Part], around: Around) -> Result<Self> {
        let tokenizer = model.tokenizer()?;
        let boundary = Boundary::of(model)?;
        let (first, rest) = match parts.split_first() {
            Some((Part::Fixed(text), rest)) => (text.as_str(), rest),
            _ => ("", parts),
        };
        let (mut slots, closing) = match around {
            Around::Special => opening(&boundary, tokenizer, before_hole(first, rest.is_empty()))?,
            Around::Nothing => {
                let ids = tokenizer.encode(first, false)?;
                (ids.into_iter().map(Some).collect(), Vec::new())
            }
        };
        let mut rules = Vec::new();
        let mut pieces = vec![Piece::Fixed { text: first.into(), tokens: slots.len() }];
        for (index, part) in rest.iter().enumerate() {
            match part {
                Part::Fixed(text) => {
                    let last = index + 1 == rest.len();
                    let ids = tokenizer.encode_fragment(before_hole(text, last))?;
                    pieces.push(Piece::Fixed { text: text.clone(), tokens: ids.len() });
                    slots.extend(ids.into_iter().map(Some));
                }
                Part::Hole { tokens, rule } => {
                    rules.push(rule.clone());
                    // At the very start of a text a leading space has nothing to stand after.
                    let drop_leading_space = index == 0 && first.is_empty();
                    pieces.push(Piece::Hole { tokens: *tokens, drop_leading_space });
                    slots.extend(std::iter::repeat_n(None, *tokens));
                }
            }
        }
        if !closing.is_empty() {
            pieces.push(Piece::Fixed { text: String::new(), tokens: closing.len() });
            slots.extend(closing.into_iter().map(Some));
        }
        let (most, got) = (model.facts().max_len, slots.len());
        if got > most {
            let expected = format!("at most {most} tokens, the longest the model takes");
            let masks = slots.iter().filter(|slot| slot.is_none()).count();
            let hint = match masks.checked_sub(got - most) {
                Some(fits @ 1..) => {
                    format!("shorten the prompt, or generate {fits} tokens at most")
                }
                _ => "shorten the prompt".to_owned(),
            };
            return Err(Error::expected("prompt and text", expected, got).with_hint(hint));
        }
        // A token without text could not be seen in the result.
        let bans = tokenizer
            .special_ids()
            .into_iter()
            .chain(boundary.begin)
            .filter(|id| !boundary.ends.contains(id))
            .fold(Bans::none(), Bans::everywhere);
        Ok(Self {
            state: MaskedSeq::from_slots(slots),
            layout: Layout::template(pieces),
            bans,
            ends: boundary.ends,
            rules,
        })
    }
}

/// What stands around a text.
#[derive(Clone, Copy)]
enum Around {
    /// The special tokens that the model was trained to see there.
    Special,
    /// Nothing: they are written in the text.
    Nothing,
}

/// A text and a hole after it.
fn after(prompt: &str, length: usize) -> [Part; 2] {
    [Part::Fixed(prompt.into()), Part::Hole { tokens: length, rule: None }]
}

/// The tokens that end a text.
pub(crate) fn ends_of(model: &dyn TextModel) -> Result<Vec<TokenId>> {
    Ok(Boundary::of(model)?.ends)
}

/// The tokens a text begins and ends with.
struct Boundary {
    begin: Option<TokenId>,
    ends: Vec<TokenId>,
}

impl Boundary {
    /// What tokenizer or config say. GPT-2's vocabulary often comes without either: there one token,
    /// `<|endoftext|>`, does both.
    fn of(model: &dyn TextModel) -> Result<Self> {
        let (begin, ends) = (model.bos_id(), model.end_ids());
        if begin.is_some() || !ends.is_empty() {
            return Ok(Self { begin, ends });
        }
        let both = model.tokenizer()?.id("<|endoftext|>");
        Ok(Self { begin: both, ends: both.into_iter().collect() })
    }
}

/// Fixed text as it is tokenised: a space right before a hole is left to the hole's first token.
fn before_hole(text: &str, last: bool) -> &str {
    if last { text } else { text.strip_suffix(' ').unwrap_or(text) }
}

/// The tokens a text begins with, special tokens included, and the special tokens that close it.
fn opening(
    boundary: &Boundary,
    tokenizer: &Tokenizer,
    text: &str,
) -> Result<(Vec<Option<TokenId>>, Vec<TokenId>)> {
    let plain = if text.is_empty() { Vec::new() } else { tokenizer.encode(text, false)? };
    let dressed = tokenizer.encode(text, true)?;
    let at = (0..=dressed.len().saturating_sub(plain.len()))
        .find(|&at| dressed[at..].starts_with(&plain));
    let (mut before, mut after) = match at {
        // Nothing to find: of `[CLS] [SEP]` the first half opens the text.
        Some(_) if plain.is_empty() => {
            let half = dressed.len().div_ceil(2);
            (dressed[..half].to_vec(), dressed[half..].to_vec())
        }
        Some(at) => (dressed[..at].to_vec(), dressed[at + plain.len()..].to_vec()),
        None => (Vec::new(), Vec::new()),
    };
    let begun = boundary.begin.is_some() && plain.first().copied() == boundary.begin;
    if begun || (!before.is_empty() && plain.starts_with(&before)) {
        // Whoever wrote them already, as chat templates do, does not want them twice.
        before.clear();
    } else if before.is_empty() {
        before.extend(boundary.begin);
    }
    // An end of text after the masks would tell the model where to stop.
    after.retain(|id| !boundary.ends.contains(id));
    let opening = before.into_iter().chain(plain).map(Some).collect();
    Ok((opening, after))
}
