//! The front of every executor: checks what goes in and what comes out, once, whoever computes.
//!
//! Guarantee: tokens, positions and widths exist before an executor sees them, and no NaN or infinity leaves
//! as a result; the error names the row.

use std::collections::HashMap;

use super::{
    Executor, Facts, Forward, Keep, Past, RowAnswer, RowQuestion, Sequence, Storage, no_position,
    no_token,
};
use crate::{
    Error, Result,
    stack::{Network, Outline},
    weights::all_finite,
};

/// A network on an executor.
#[derive(Debug)]
pub struct Runner {
    facts: Facts,
    outline: Outline,
    forward: Box<dyn Forward>,
}

/// Final hidden states, sequence by sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Hidden {
    width: usize,
    values: Vec<f32>,
    ends: Vec<usize>,
}

impl Hidden {
    /// Numbers per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All rows, `[rows, width]`.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The rows a sequence kept, in the order it asked for them.
    pub fn of(&self, sequence: usize) -> &[f32] {
        let start = if sequence == 0 { 0 } else { self.ends[sequence - 1] };
        &self.values[start * self.width..self.ends[sequence] * self.width]
    }
}

impl Runner {
    /// Gives a network to an executor; `storage` is how its weights are to be held.
    pub fn new(executor: &dyn Executor, network: Network, storage: Storage) -> Result<Self> {
        let (facts, outline) = (executor.facts(), network.outline());
        let forward = executor.load(network, storage)?;
        Ok(Self { facts, outline, forward })
    }

    /// What the executor promises.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What batches are checked against.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Bytes of weights held.
    pub fn bytes(&self) -> usize {
        self.forward.bytes()
    }

    /// Final hidden states of the rows each sequence keeps.
    pub fn hidden(&self, batch: &[Sequence<'_>]) -> Result<Hidden> {
        self.check(batch)?;
        self.rows(batch, self.forward.hidden(batch)?)
    }

    /// Whether the executor can go on from an earlier pass.
    pub fn reuses(&self) -> bool {
        self.forward.reuses()
    }

    /// As [`Self::hidden`], approximately: keys and values of unchanged tokens are those of an earlier pass. Also
    /// what a later pass may go on from.
    pub fn hidden_after(
        &self,
        batch: &[Sequence<'_>],
        pasts: &[Option<&Past>],
    ) -> Result<(Hidden, Vec<Past>)> {
        self.check(batch)?;
        let (values, pasts) = self.forward.hidden_after(batch, pasts).ok_or_else(|| {
            let got = self.facts.name.clone();
            Error::expected("executor", "one that keeps keys and values", got)
        })??;
        self.whole(batch.len(), pasts.len())?;
        Ok((self.rows(batch, values)?, pasts))
    }

    fn check(&self, batch: &[Sequence<'_>]) -> Result<()> {
        batch.iter().try_for_each(|sequence| sequence.check(&self.outline))
    }

    /// The rows that a batch wanted, if they are all there and finite.
    fn rows(&self, batch: &[Sequence<'_>], values: Vec<f32>) -> Result<Hidden> {
        let width = self.outline.width;
        let mut ends = Vec::with_capacity(batch.len());
        let mut end = 0;
        for sequence in batch {
            end += match sequence.keep {
                Keep::All => sequence.tokens.len(),
                Keep::First => sequence.tokens.len().min(1),
                Keep::Positions(positions) => positions.len(),
            };
            ends.push(end);
        }
        self.whole(end * width, values.len())?;
        finite(&values, width, |row| {
            let sequence = ends.partition_point(|&end| end <= row);
            let before = if sequence == 0 { 0 } else { ends[sequence - 1] };
            let position = batch[sequence].kept().nth(row - before).unwrap_or(0);
            format!("sequence {sequence}, hidden state of position {position}")
        })?;
        Ok(Hidden { width, values, ends })
    }

    /// All logits of hidden rows, `[rows, outputs]`: labels, or for checks a vocabulary.
    pub fn logits(&self, rows: &[f32]) -> Result<Vec<f32>> {
        let count = self.check_rows(rows)?;
        let logits = self.forward.logits(rows)?;
        self.whole(count * self.outline.outputs, logits.len())?;
        finite(&logits, self.outline.outputs, |row| format!("logits of row {row}"))?;
        Ok(logits)
    }

    /// Answers questions about hidden rows (`[rows, width]`) through a vocabulary head.
    pub fn ask(&self, rows: &[f32], questions: &[RowQuestion<'_>]) -> Result<Vec<RowAnswer>> {
        let len = self.check_rows(rows)?;
        self.check_reader(true)?;
        for question in questions {
            if question.row >= len {
                return Err(no_position(question.row, len));
            }
            self.check_outputs(question.tokens)?;
        }
        let answers = self.forward.ask(rows, questions)?;
        self.whole(questions.len(), answers.len())?;
        // Only a product that overflows gets here: weights and hidden rows are finite.
        for (question, answer) in questions.iter().zip(&answers) {
            let best = answer.best.into_iter().chain(answer.top.first().copied());
            let some = best.map(|(_, logit)| f64::from(logit)).chain(answer.normaliser);
            let wrong = |x: &&f32| x.is_nan() || **x == f32::INFINITY;
            let listed = answer.logits.iter().find(wrong).map(|&x| f64::from(x));
            if let Some(got) = some.chain(listed).find(|x| !x.is_finite()) {
                let what = format!("logits of row {}", question.row);
                return Err(Error::not_finite(what, got));
            }
        }
        Ok(answers)
    }

    /// Negative log-likelihoods in nats of every token but the first, given those before it; the numbers are
    /// those of each sequence alone if the executor is row-invariant.
    pub fn nll(&self, batch: &[&[u32]]) -> Result<Vec<Vec<f64>>> {
        self.check_reader(true)?;
        if !self.outline.causal {
            return Err(Error::expected(
                "network",
                "causal attention in every layer to score text",
                "a layer that looks ahead",
            ));
        }
        for tokens in batch {
            let inputs = &tokens[..tokens.len().saturating_sub(1)];
            Sequence::all(inputs).check(&self.outline)?;
            self.check_outputs(tokens)?;
        }
        let nll = self.forward.nll(batch)?;
        self.whole(batch.len(), nll.len())?;
        for (sequence, nll) in nll.iter().enumerate() {
            if let Some(at) = nll.iter().position(|x| !x.is_finite()) {
                let what = format!("sequence {sequence}, likelihood of position {}", at + 1);
                return Err(Error::not_finite(what, nll[at]));
            }
        }
        Ok(nll)
    }

    /// Class logits of each sequence, read at a position that its tokens alone decide; equal sequences run once.
    pub fn classify_at(&self, batch: &[(&[u32], usize)]) -> Result<Vec<Vec<f32>>> {
        self.check_reader(false)?;
        if let Some(&(tokens, position)) = batch.iter().find(|(tokens, at)| *at >= tokens.len()) {
            return Err(no_position(position, tokens.len()));
        }
        // Texts that differ in what the tokenizer drops are equal only here.
        let mut known: HashMap<&[u32], usize> = HashMap::with_capacity(batch.len());
        let mut sequences: Vec<Sequence<'_>> = Vec::with_capacity(batch.len());
        let places: Vec<usize> = batch
            .iter()
            .map(|(tokens, position)| {
                *known.entry(tokens).or_insert_with(|| {
                    let keep = match position {
                        0 => Keep::First,
                        _ => Keep::Positions(std::slice::from_ref(position)),
                    };
                    sequences.push(Sequence { tokens, keep, sigma: 0.0 });
                    sequences.len() - 1
                })
            })
            .collect();
        let hidden = self.hidden(&sequences)?;
        let labels = self.outline.outputs;
        let logits = self.logits(hidden.values())?;
        Ok(places.iter().map(|place| logits[place * labels..][..labels].to_vec()).collect())
    }

    /// How many rows these are.
    fn check_rows(&self, rows: &[f32]) -> Result<usize> {
        let width = self.outline.width;
        if rows.len().is_multiple_of(width) {
            return Ok(rows.len() / width);
        }
        let (wanted, got) = (format!("rows of {width} numbers"), format!("{} numbers", rows.len()));
        Err(Error::expected("head", wanted, got))
    }

    fn check_reader(&self, vocabulary: bool) -> Result<()> {
        let name = |vocabulary| if vocabulary { "a vocabulary head" } else { "a classifier" };
        if self.outline.vocabulary == vocabulary {
            return Ok(());
        }
        Err(Error::expected("network", name(vocabulary), name(!vocabulary)))
    }

    fn check_outputs(&self, tokens: &[u32]) -> Result<()> {
        let vocabulary = self.outline.outputs;
        match tokens.iter().find(|&&token| token as usize >= vocabulary) {
            Some(&token) => Err(no_token(token, vocabulary)),
            None => Ok(()),
        }
    }

    /// Refuses an executor's result of another size than asked for.
    fn whole(&self, expected: usize, got: usize) -> Result<()> {
        if expected == got {
            return Ok(());
        }
        let name = &self.facts.name;
        Err(Error::unreachable(format!("executor {name}: expected {expected} results, got {got}")))
    }
}

/// Refuses rows with a NaN or an infinity; `what` names a row.
fn finite(values: &[f32], width: usize, what: impl Fn(usize) -> String) -> Result<()> {
    if all_finite(values) {
        return Ok(());
    }
    let at = values.iter().position(|x| !x.is_finite()).unwrap_or(0);
    Err(Error::not_finite(what(at / width.max(1)), values[at]))
}
