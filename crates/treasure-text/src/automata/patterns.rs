//! Several patterns in one sequence: each hole its own, with fixed text between them.
//!
//! Holes do not see each other, since the text between them is fixed, so all guarantees of a [`Lattice`] hold
//! for the whole sequence. A pattern over the whole text is one part that spans fixed tokens as well.

use std::{ops::Range, sync::Arc};

use treasure_core::{Bans, MaskedSeq, TokenId};

use super::{Best, Error, Lattice, Result, Scores, Span, TokenSet, Vocabulary};

/// Patterns at ranges of positions. Masks outside all of them may hold any token that has a text.
#[derive(Clone, Debug)]
pub struct Patterns {
    vocabulary: Arc<Vocabulary>,
    len: usize,
    /// By increasing start, without overlap.
    parts: Vec<(usize, Span)>,
    anything: TokenSet,
    bans: Bans,
}

impl Patterns {
    /// No pattern yet, on a sequence of `len` positions.
    pub fn new(vocabulary: Arc<Vocabulary>, len: usize) -> Self {
        let mut anything = TokenSet::default();
        let size = vocabulary.size() as TokenId;
        anything.assign((0..size).map(|token| !vocabulary.bytes(token).is_empty()));
        Self { vocabulary, len, parts: Vec::new(), anything, bans: Bans::none() }
    }

    /// Adds a pattern on `span.len()` positions from `start` on. Checked: it lies inside the sequence,
    /// overlaps no other, uses the same vocabulary, and can be met in its length.
    pub fn with(mut self, start: usize, span: Span) -> Result<Self> {
        let wrong = |expected: String, got: String| {
            Err(Error::Input { what: "positions of a pattern", expected, got })
        };
        let end = start.saturating_add(span.len());
        if end > self.len {
            return wrong(format!("within {} positions", self.len), format!("{start}..{end}"));
        }
        let overlap = |part: &&(usize, Span)| start < part.0 + part.1.len() && part.0 < end;
        if let Some((other, part)) = self.parts.iter().find(overlap) {
            let taken = format!("none of {other}..{}, which has a pattern", other + part.len());
            return wrong(taken, format!("{start}..{end}"));
        }
        if !Arc::ptr_eq(span.tables().vocabulary(), &self.vocabulary) {
            return wrong("the vocabulary of the others".to_owned(), "another".to_owned());
        }
        span.check()?;
        let at = self.parts.partition_point(|part| part.0 < start);
        self.parts.insert(at, (start, span));
        Ok(self)
    }

    /// The same with tokens that a search leaves out besides; at masks in a pattern they must not be needed.
    #[must_use]
    pub fn with_bans(mut self, bans: Bans) -> Self {
        self.bans = bans;
        self
    }

    /// The part a position lies in, and its place there.
    pub(super) fn part(&self, position: usize) -> Option<(usize, usize)> {
        let after = self.parts.partition_point(|part| part.0 <= position);
        let (start, span) = self.parts.get(after.checked_sub(1)?)?;
        (position < start + span.len()).then_some((after - 1, position - start))
    }

    /// The positions behind an end of text, which hold nothing but ends.
    pub(super) fn padding(&self, position: usize, token: TokenId) -> Range<usize> {
        match self.part(position) {
            Some((part, _)) if self.vocabulary.is_eos(token) => {
                let (start, span) = &self.parts[part];
                position + 1..start + span.len()
            }
            _ => 0..0,
        }
    }

    /// The tokens that may stand at a mask outside all parts.
    pub(super) fn anything(&self) -> &TokenSet {
        &self.anything
    }

    pub(super) fn banned(&self) -> &Bans {
        &self.bans
    }

    /// The number of positions.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a sequence of no positions is nothing special"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The positions of every part, in order.
    pub fn parts(&self) -> impl Iterator<Item = (Range<usize>, &Span)> {
        self.parts.iter().map(|(start, span)| (*start..start + span.len(), span))
    }

    /// The legal tokens of a partly masked sequence; an error if it cannot be completed.
    pub fn fill(&self, seq: &MaskedSeq) -> Result<Filled> {
        if seq.len() != self.len {
            return Err(Error::Input {
                what: "sequence",
                expected: format!("{} positions", self.len),
                got: seq.len().to_string(),
            });
        }
        let slots: Vec<Option<TokenId>> = seq.slots().collect();
        let lattices = self.parts().map(|(range, span)| span.lattice(&slots[range]));
        Ok(Filled { lattices: lattices.collect::<Result<_>>()?, slots, constraint: self.clone() })
    }
}

/// A partly masked sequence that can be completed, with the lattice of every part.
#[derive(Clone, Debug)]
pub struct Filled {
    constraint: Patterns,
    slots: Vec<Option<TokenId>>,
    lattices: Vec<Lattice>,
}

impl Filled {
    /// The part a position lies in, and its place there.
    fn part(&self, position: usize) -> Option<(usize, usize)> {
        self.constraint.part(position)
    }

    /// By position, the number of the mask that stands there.
    pub(super) fn index_of_masks(&self) -> Vec<usize> {
        let mut masks = 0;
        let number = |slot: &Option<TokenId>| {
            masks += usize::from(slot.is_none());
            masks.saturating_sub(1)
        };
        self.slots.iter().map(number).collect()
    }

    /// The exact set of legal tokens at a position; at one that is filled, its token.
    ///
    /// # Panics
    /// If the position is outside the sequence.
    pub fn legal(&self, position: usize, out: &mut TokenSet) {
        match (self.part(position), self.slots[position]) {
            (Some((part, at)), _) => self.lattices[part].legal(at, out),
            (None, None) => out.clone_from(&self.constraint.anything),
            (None, Some(token)) => {
                out.reset(self.constraint.vocabulary.size());
                if (token as usize) < out.size() {
                    out.insert(token);
                }
            }
        }
    }

    /// Places a legal token; an error, and no change, if it is not legal or the position is filled.
    pub fn reveal(&mut self, position: usize, token: TokenId) -> Result<()> {
        let open = self.slots.get(position).is_some_and(Option::is_none);
        match self.part(position) {
            Some((part, at)) => self.lattices[part].reveal(at, token)?,
            None if open && self.constraint.anything.contains(token) => {}
            None => {
                let got = format!("token {token} at position {position}");
                return Err(Error::NoCompletion { got });
            }
        }
        self.slots[position] = Some(token);
        Ok(())
    }

    /// The tokens placed so far (`None` is a mask).
    pub fn slots(&self) -> &[Option<TokenId>] {
        &self.slots
    }

    /// The patterns it is filled within.
    pub(super) fn constraint(&self) -> &Patterns {
        &self.constraint
    }

    /// The lattice of every part, in order.
    pub fn lattices(&self) -> &[Lattice] {
        &self.lattices
    }

    /// The likeliest legal completion, from the scores at every masked position.
    pub fn likeliest<'r>(&self, rows: &dyn Fn(usize) -> &'r [f32]) -> Result<Likeliest> {
        let mut parts = Vec::with_capacity(self.lattices.len());
        for (lattice, (range, span)) in self.lattices.iter().zip(self.constraint.parts()) {
            let mut scores = Scores::new(span.tables().clone(), span.len());
            for position in range.clone().filter(|&p| self.slots[p].is_none()) {
                scores.set(position - range.start, rows(position))?;
            }
            parts.push(Best::new(lattice, &Arc::new(scores))?);
        }
        let mut free = Vec::new();
        for position in 0..self.slots.len() {
            if self.slots[position].is_none() && self.part(position).is_none() {
                free.push((position, self.best_of_row(position, rows(position))?));
            }
        }
        Ok(Likeliest { filled: self.clone(), parts, free })
    }

    fn best_of_row(&self, position: usize, row: &[f32]) -> Result<(TokenId, f32)> {
        let tokens = self.constraint.anything.iter().filter(|&token| (token as usize) < row.len());
        let score = |token: TokenId| (token, row[token as usize]);
        let better = |best: (TokenId, f32), next: (TokenId, f32)| {
            if next.1 > best.1 { next } else { best }
        };
        tokens.map(score).reduce(better).ok_or_else(|| Error::NoCompletion {
            got: format!("no token with a text at position {position}"),
        })
    }
}

/// The likeliest completions of a [`Filled`] sequence and of each of its children, from one pass.
#[derive(Clone, Debug)]
pub struct Likeliest {
    filled: Filled,
    parts: Vec<Best>,
    free: Vec<(usize, (TokenId, f32))>,
}

impl Likeliest {
    /// The best completion of every part, in order.
    pub fn parts(&self) -> &[Best] {
        &self.parts
    }

    /// The score of the best completion.
    pub fn score(&self) -> f64 {
        let free: f64 = self.free.iter().map(|(_, (_, score))| f64::from(*score)).sum();
        self.parts.iter().map(Best::score).sum::<f64>() + free
    }

    /// Whether a completion's text has ended before a position, so that it holds padding there.
    pub(super) fn is_padding(&self, whole: &[TokenId], position: usize) -> bool {
        let constraint = &self.filled.constraint;
        constraint.part(position).is_some_and(|(_, at)| {
            let before = &whole[position - at..position];
            before.iter().any(|&token| constraint.vocabulary.is_eos(token))
        })
    }

    /// The best completion, whole.
    pub fn completion(&self) -> Vec<TokenId> {
        let mut tokens: Vec<_> = self.filled.slots.iter().map(|slot| slot.unwrap_or(0)).collect();
        for (best, (range, _)) in self.parts.iter().zip(self.filled.constraint.parts()) {
            tokens[range].copy_from_slice(&best.completion());
        }
        self.free.iter().for_each(|&(position, (token, _))| tokens[position] = token);
        tokens
    }

    /// The best completion of the child with one more token, without a new pass; `None` if it is not legal.
    ///
    /// # Panics
    /// If the position is outside the sequence.
    pub fn child(&self, position: usize, token: TokenId) -> Option<Vec<TokenId>> {
        let mut tokens = self.completion();
        match self.filled.part(position) {
            Some((part, at)) => {
                let (start, span) = &self.filled.constraint.parts[part];
                let (_, filled) = self.parts[part].child(at, token)?;
                tokens[*start..start + span.len()].copy_from_slice(&filled);
            }
            None => {
                let fits = match self.filled.slots[position] {
                    Some(placed) => placed == token,
                    None => self.filled.constraint.anything.contains(token),
                };
                fits.then_some(())?;
                tokens[position] = token;
            }
        }
        Some(tokens)
    }

    /// The best completion with these tokens besides; `None` if they are not legal together.
    pub fn with(&self, placed: &[(usize, TokenId)]) -> Option<Vec<TokenId>> {
        // Padding says nothing that its first token does not say.
        let constraint = &self.filled.constraint;
        let mut ends = placed.iter().filter(|(_, token)| constraint.vocabulary.is_eos(*token));
        if let Some(&(first, end)) = ends.next()
            && placed.len() > 1
        {
            let padding = constraint.padding(first, end);
            let said = |&&(at, token): &&(usize, TokenId)| token != end || !padding.contains(&at);
            let few: Vec<_> = placed.iter().filter(said).copied().collect();
            if few.len() < placed.len() {
                let mut tokens = self.with(&few)?;
                placed.iter().for_each(|&(at, token)| tokens[at] = token);
                return Some(tokens);
            }
        }
        match placed {
            [] => Some(self.completion()),
            [(position, token)] => self.child(*position, *token),
            _ => {
                let mut filled = self.filled.clone();
                placed.iter().try_for_each(|&(at, token)| filled.reveal(at, token)).ok()?;
                let mut tokens = self.completion();
                for (index, (range, _)) in self.filled.constraint.parts().enumerate() {
                    let lattice = &filled.lattices[index];
                    let best = Best::new(lattice, self.parts[index].scores()).ok()?;
                    tokens[range].copy_from_slice(&best.completion());
                }
                placed.iter().for_each(|&(position, token)| tokens[position] = token);
                Some(tokens)
            }
        }
    }

    /// For every token at a masked position the best total of a completion of that position's part that
    /// places it there; −∞ where it is not legal. Other parts do not depend on it.
    ///
    /// # Panics
    /// If the position is outside the sequence.
    pub fn max_marginals(&self, position: usize, row: &[f32], out: &mut Vec<f64>) -> Result<()> {
        if let Some((part, at)) = self.filled.part(position) {
            return self.parts[part].max_marginals(at, row, out);
        }
        let anything = &self.filled.constraint.anything;
        let score = |(token, &score): (usize, &f32)| {
            if anything.contains(token as TokenId) { f64::from(score) } else { f64::NEG_INFINITY }
        };
        out.clear();
        out.extend(row.iter().enumerate().map(score));
        Ok(())
    }
}
