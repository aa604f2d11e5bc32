//! A constraint by enumeration: the sequences that are allowed, written out. Slow and plainly right.

use std::sync::Arc;

use treasure_core::{
    Ahead, Bans, Constraint, Error, Fills, Legal, MaskedSeq, Result, TokenId, TokenSet,
};

/// A list of allowed sequences.
#[derive(Clone, Debug)]
pub struct Listed {
    texts: Arc<Vec<Vec<TokenId>>>,
    bans: Bans,
    looks_ahead: bool,
}

impl Listed {
    /// The constraint that allows these sequences and no other.
    pub fn new(texts: Vec<Vec<TokenId>>) -> Self {
        Self { texts: Arc::new(texts), bans: Bans::none(), looks_ahead: false }
    }

    /// The same with a look ahead: masks follow their rows given that the text is allowed.
    #[must_use]
    pub fn looking_ahead(mut self) -> Self {
        self.looks_ahead = true;
        self
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

    fn ahead(&self, rows: &[&[f32]]) -> Result<Option<Box<dyn Ahead>>> {
        if !self.listed.looks_ahead {
            return Ok(None);
        }
        let shares: Vec<Vec<f64>> = rows.iter().map(|row| softmax(row)).collect();
        let weigh = |text: &Vec<TokenId>| {
            let masks = self.state.masked().zip(&shares);
            let weight: f64 = masks.map(|(position, row)| row[text[position] as usize]).product();
            (weight, text.clone())
        };
        let weighed: Vec<_> = self.listed.fitting(&self.state).map(weigh).collect();
        let any = weighed.iter().any(|(weight, _)| *weight > 0.0);
        Ok(any.then(|| Box::new(Weighed(weighed)) as _))
    }

    fn fills(&self, rows: &[&[f32]]) -> Result<Arc<dyn Fills>> {
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

fn softmax(row: &[f32]) -> Vec<f64> {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = row.iter().map(|&score| f64::from(score - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// All legal completions with their probabilities, up to a constant.
#[derive(Clone)]
struct Weighed(Vec<(f64, Vec<TokenId>)>);

impl Ahead for Weighed {
    fn row(&mut self, position: usize, row: &[f32], out: &mut Vec<f32>) -> Result<f64> {
        let mut sums = vec![0.0; row.len()];
        self.0.iter().for_each(|(weight, text)| sums[text[position] as usize] += weight);
        let total: f64 = sums.iter().sum();
        out.clear();
        out.extend(sums.into_iter().map(|sum| (sum / total).ln() as f32));
        Ok(row.iter().map(|&score| f64::from(score).exp()).sum::<f64>().ln())
    }

    fn place(&mut self, position: usize, token: TokenId) -> Result<()> {
        self.0.retain(|(_, text)| text[position] == token);
        Ok(())
    }

    fn is_padding(&self, _: usize) -> bool {
        false
    }

    fn again(&self) -> Box<dyn Ahead> {
        Box::new(self.clone())
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
