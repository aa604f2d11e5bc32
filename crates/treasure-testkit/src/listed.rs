//! A constraint by enumeration: the sequences that are allowed, written out. Slow and plainly right.

use std::sync::Arc;

use treasure_core::{Bans, Constraint, Error, Fills, Legal, MaskedSeq, Result, TokenId, TokenSet};

/// A list of allowed sequences.
#[derive(Clone, Debug)]
pub struct Listed {
    texts: Arc<Vec<Vec<TokenId>>>,
    bans: Bans,
}

impl Listed {
    /// The constraint that allows these sequences and no other.
    pub fn new(texts: Vec<Vec<TokenId>>) -> Self {
        Self { texts: Arc::new(texts), bans: Bans::none() }
    }

    /// The allowed sequences.
    pub fn texts(&self) -> &[Vec<TokenId>] {
        &self.texts
    }

    fn fitting<'a>(&'a self, state: &'a MaskedSeq) -> impl Iterator<Item = &'a Vec<TokenId>> {
        let fits = |text: &&Vec<TokenId>| {
            (state.slots().zip(text.iter())).all(|(slot, token)| slot.is_none_or(|s| s == *token))
        };
        self.texts.iter().filter(fits)
    }
}

impl Constraint for Listed {
    fn bans(&self) -> &Bans {
        &self.bans
    }

    fn open(&self, state: &MaskedSeq) -> Result<Option<Box<dyn Legal>>> {
        if self.fitting(state).next().is_none() {
            let expected = "a state that some allowed sequence completes".into();
            return Err(Error::Invalid { what: "constraint", expected, got: format!("{state:?}") });
        }
        Ok(Some(Box::new(Open { listed: self.clone(), state: state.clone() })))
    }
}

struct Open {
    listed: Listed,
    state: MaskedSeq,
}

impl Legal for Open {
    fn allowed(&self, position: usize, size: usize, out: &mut TokenSet) {
        out.reset(size);
        self.listed.fitting(&self.state).for_each(|text| out.insert(text[position]));
    }

    fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        self.state.reveal_in_place(position, token);
        self.listed.open(&self.state).map(|_| ())
    }

    fn fills(&self, rows: &[Vec<f32>]) -> Result<Arc<dyn Fills>> {
        let scored = self.listed.fitting(&self.state).map(|text| {
            let masks = self.state.masked().zip(rows);
            let score: f64 =
                masks.map(|(position, row)| f64::from(row[text[position] as usize])).sum();
            (score, text.clone())
        });
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        Ok(Arc::new(Ranked(scored)))
    }

    fn again(&self) -> Box<dyn Legal> {
        Box::new(Self { listed: self.listed.clone(), state: self.state.clone() })
    }
}

/// All legal completions, likeliest first.
struct Ranked(Vec<(f64, Vec<TokenId>)>);

impl Fills for Ranked {
    fn with(&self, placed: &[(usize, TokenId)]) -> Option<Vec<TokenId>> {
        let fits = |text: &&Vec<TokenId>| placed.iter().all(|&(at, token)| text[at] == token);
        self.0.iter().map(|(_, text)| text).find(fits).cloned()
    }
}
