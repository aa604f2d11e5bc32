//! A question about several masked positions, and its answer, by way of rows.

use std::collections::BTreeMap;

use treasure_core::{Answer, At, Candidate, Draw, Question, TokenId};

use super::Rows;
use crate::{Error, Result, exec};

/// What is asked about one masked position.
#[derive(Default)]
pub(super) struct Ask {
    pub index: usize,
    pub banned: Vec<TokenId>,
    pub best: bool,
    pub top: usize,
    pub normaliser: bool,
    pub draws: Vec<f64>,
    pub tokens: Vec<TokenId>,
    /// Whether all logits are wanted.
    pub whole: bool,
}

/// A question, sorted by position.
pub(super) struct Sorted<'a> {
    pub rows: &'a Rows,
    pub asks: Vec<Ask>,
    slots: BTreeMap<usize, usize>,
}

impl<'a> Sorted<'a> {
    pub fn new(question: &Question<'a>, never: &[TokenId]) -> Result<Self> {
        let rows: &Rows = question
            .encoding
            .downcast()
            .ok_or_else(|| Error::expected("encoding", "one made by this model", "another"))?;
        if !question.seq.masked().eq(rows.positions.iter().copied()) {
            return Err(Error::expected("question", "the sequence that was encoded", "another"));
        }
        let mut sorted = Sorted { rows, asks: Vec::new(), slots: Default::default() };
        let want = &question.want;
        if want.argmax {
            for position in question.seq.masked() {
                let ask = sorted.at(position, question, never)?;
                ask.best = true;
                ask.normaliser |= want.confidence;
            }
        }
        for At { position, k } in want.top {
            let ask = sorted.at(*position, question, never)?;
            ask.top = ask.top.max(*k);
            ask.normaliser = true;
        }
        for Draw { position, u, .. } in want.draws {
            sorted.at(*position, question, never)?.draws.push(*u);
        }
        for (position, token) in want.logprobs {
            let ask = sorted.at(*position, question, never)?;
            ask.tokens.push(*token);
            ask.normaliser = true;
        }
        for position in want.rows {
            sorted.at(*position, question, never)?.whole = true;
        }
        Ok(sorted)
    }

    fn at(
        &mut self,
        position: usize,
        question: &Question<'_>,
        never: &[TokenId],
    ) -> Result<&mut Ask> {
        if let Some(&slot) = self.slots.get(&position) {
            return Ok(&mut self.asks[slot]);
        }
        let index = self.rows.positions.binary_search(&position).map_err(|_| {
            Error::expected("question", "a masked position", format!("position {position}"))
        })?;
        let mut banned = question.bans.at(position);
        banned.extend_from_slice(never);
        banned.sort_unstable();
        banned.dedup();
        self.slots.insert(position, self.asks.len());
        self.asks.push(Ask { index, banned, ..Ask::default() });
        let last = self.asks.len() - 1;
        Ok(&mut self.asks[last])
    }

    pub fn assemble(
        &self,
        question: &Question<'_>,
        answers: &mut impl Iterator<Item = exec::RowAnswer>,
    ) -> Result<Answer> {
        let given: Vec<exec::RowAnswer> = answers.take(self.asks.len()).collect();
        let of = |position: usize| &given[self.slots[&position]];
        let nothing = |position: usize| {
            Error::expected(format!("position {position}"), "an allowed token", "all banned")
        };
        let normaliser = |position: usize| of(position).normaliser.unwrap_or(f64::NAN);
        let want = &question.want;
        let mut answer = Answer::default();
        if want.argmax {
            for position in question.seq.masked() {
                let (token, logit) = of(position).best.ok_or_else(|| nothing(position))?;
                answer.argmax.push(token);
                if want.confidence {
                    answer.confidence.push(f64::from(logit) - normaliser(position));
                }
            }
        }
        for At { position, k } in want.top {
            let candidates = of(*position).top.iter().take(*k).map(|&(token, logit)| Candidate {
                token,
                logprob: f64::from(logit) - normaliser(*position),
            });
            answer.top.push(candidates.collect());
        }
        let mut drawn = vec![0; self.asks.len()];
        for Draw { position, .. } in want.draws {
            let slot = self.slots[position];
            let token = given[slot].draws.get(drawn[slot]).ok_or_else(|| nothing(*position))?;
            drawn[slot] += 1;
            answer.draws.push(*token);
        }
        let mut listed = vec![0; self.asks.len()];
        for (position, _) in want.logprobs {
            let slot = self.slots[position];
            let logit = given[slot].logits.get(listed[slot]).copied().unwrap_or(f32::NEG_INFINITY);
            listed[slot] += 1;
            answer.logprobs.push(if logit == f32::NEG_INFINITY {
                f64::NEG_INFINITY
            } else {
                f64::from(logit) - normaliser(*position)
            });
        }
        for position in want.rows {
            let slot = self.slots[position];
            answer.rows.push(given[slot].logits[self.asks[slot].tokens.len()..].to_vec());
        }
        Ok(answer)
    }
}
