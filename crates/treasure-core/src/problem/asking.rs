//! What a problem asks its denoiser: passes, each state once, and questions about them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{
    Problem,
    ledger::{Outlooks, StateKey},
};
use crate::{
    Answer, Encoding, Flow, Halt, MaskedSeq, Question, Result, State, StopReason, Want, guard,
    legal::Outlook, memo::Hashed,
};

/// A state together with what its forward pass left behind.
#[derive(Clone, Debug)]
pub struct Encoded {
    seq: Arc<MaskedSeq>,
    t: f64,
    /// `None` for a complete sequence, which needs no forward pass.
    encoding: Option<Encoding>,
}

impl Encoded {
    /// A complete sequence, which has nothing to predict.
    pub fn complete(seq: Arc<MaskedSeq>, t: f64) -> Self {
        Self { seq, t, encoding: None }
    }

    /// The state.
    pub fn seq(&self) -> &Arc<MaskedSeq> {
        &self.seq
    }

    /// The time it was encoded at.
    pub fn t(&self) -> f64 {
        self.t
    }
}

/// States or texts that are run between two looks at the clock.
pub(super) const PORTION: usize = 64;

/// Tokens of states that are run between two looks at the clock, unless one state has more.
const TOKENS: usize = 1 << 14;

impl Problem<'_> {
    /// States that are run between two looks at the clock.
    fn portion(&self) -> usize {
        (TOKENS / self.start.len().max(1)).clamp(1, PORTION)
    }

    fn state_key(&self, seq: &Arc<MaskedSeq>, t: f64) -> StateKey {
        Hashed::new((seq.clone(), if self.time_agnostic() { 0 } else { t.to_bits() }))
    }

    /// Whether the denoiser can go on from an earlier pass.
    pub fn reuses(&self) -> bool {
        self.denoiser.reuses()
    }

    /// Runs states through the denoiser, equal ones once. A complete sequence needs no pass.
    pub fn encode(&self, states: &[(Arc<MaskedSeq>, f64)]) -> Flow<Vec<Encoded>> {
        self.encode_with(states, None)
    }

    /// As `encode`, approximately: each state goes on from the pass of an earlier one. What is remembered of a
    /// state then depends on where the search came from.
    pub(crate) fn encode_after(
        &self,
        states: &[(Arc<MaskedSeq>, f64)],
        before: &[Option<Encoded>],
    ) -> Flow<Vec<Encoded>> {
        self.encode_with(states, Some(before))
    }

    fn encode_with(
        &self,
        states: &[(Arc<MaskedSeq>, f64)],
        before: Option<&[Option<Encoded>]>,
    ) -> Flow<Vec<Encoded>> {
        let mut found: Vec<Option<Encoding>> = Vec::with_capacity(states.len());
        let mut fresh: Vec<Arc<StateKey>> = Vec::new();
        let mut fresh_of: Vec<Option<usize>> = Vec::with_capacity(states.len());
        {
            let mut ledger = self.ledger();
            let mut seen: FxHashMap<Arc<StateKey>, usize> = FxHashMap::default();
            for (seq, t) in states {
                let (mut known, mut index) = (None, None);
                if seq.n_masked() > 0 {
                    let key = self.state_key(seq, *t);
                    known = ledger.encodings.get(&key);
                    if known.is_none() {
                        let key = Arc::new(key);
                        index = Some(*seen.entry(key.clone()).or_insert_with(|| {
                            fresh.push(key);
                            fresh.len() - 1
                        }));
                    }
                }
                found.push(known);
                fresh_of.push(index);
            }
            let asked = fresh.len() as u64 * self.denoiser.passes();
            if self.limits.max_nfe.is_some_and(|max| ledger.cost.nfe + asked > max) {
                return Err(Halt::Stop(StopReason::MaxNfe));
            }
        }
        let mut computed = Vec::new();
        let mut stopped = None;
        if !fresh.is_empty() {
            let time = |key: &StateKey| {
                if self.time_agnostic() { 0.0 } else { f64::from_bits(key.key().1) }
            };
            let mut batch: Vec<_> =
                fresh.iter().map(|key| State { seq: &key.key().0, t: time(key) }).collect();
            if self.time_agnostic() {
                // The time is told all the same, from the first request for each state.
                for ((_, t), index) in states.iter().zip(&fresh_of).rev() {
                    if let Some(index) = index {
                        batch[*index].t = *t;
                    }
                }
            }
            let mut past: Vec<Option<&Encoding>> = vec![None; batch.len()];
            for (before, index) in before.unwrap_or_default().iter().zip(&fresh_of).rev() {
                if let (Some(before), Some(index)) = (before, index) {
                    past[*index] = before.encoding.as_ref();
                }
            }
            let portions = batch.chunks(self.portion()).zip(past.chunks(self.portion()));
            for (portion, past) in portions {
                let call = || {
                    guard::denoiser(|| match before {
                        Some(_) => self.denoiser.encode_after(portion, past),
                        None => self.denoiser.encode(portion),
                    })
                };
                match self.check_deadline().and_then(|()| self.limits.within(call)) {
                    Ok(encodings) => {
                        guard::rows("encodings", portion.len(), encodings.len())?;
                        computed.extend(encodings);
                    }
                    Err(Halt::Stop(reason)) => {
                        stopped = Some(reason);
                        break;
                    }
                    Err(failed) => return Err(failed),
                }
            }
        }
        let mut ledger = self.ledger();
        ledger.cost.nfe += computed.len() as u64 * self.denoiser.passes();
        let answered = states.len() - fresh.len();
        for (key, encoding) in fresh.into_iter().zip(&computed) {
            let weight = encoding.bytes() + key.key().0.len() * 4 + 64;
            ledger.encodings.insert(key, encoding.clone(), weight);
        }
        if let Some(reason) = stopped {
            return Err(Halt::Stop(reason));
        }
        ledger.cost.nfe_hits += answered as u64;
        Ok(states
            .iter()
            .zip(found.into_iter().zip(fresh_of))
            .map(|((seq, t), (known, index))| Encoded {
                seq: seq.clone(),
                t: *t,
                encoding: known.or_else(|| index.map(|index| computed[index].clone())),
            })
            .collect())
    }

    /// What is remembered about a state, without a request: nothing is counted.
    pub(crate) fn recall(&self, seq: &Arc<MaskedSeq>, t: f64) -> Option<Encoded> {
        let encoding = self.ledger().encodings.get(&self.state_key(seq, t))?;
        Some(Encoded { seq: seq.clone(), t, encoding: Some(encoding) })
    }

    /// Asks about encoded states; no forward pass. A complete state has an empty answer.
    pub fn read(&self, wants: &[(&Encoded, Want<'_>)]) -> Flow<Vec<Answer>> {
        let mut answers = Vec::with_capacity(wants.len());
        for portion in wants.chunks(self.portion()) {
            self.check_deadline()?;
            answers.extend(self.limits.within(|| self.read_portion(portion))?);
        }
        Ok(answers)
    }

    /// Asks about one encoded state when a search has been stopped: this much must still be possible.
    pub(crate) fn read_at_last(&self, encoded: &Encoded, want: Want<'_>) -> Result<Answer> {
        Ok(self.read_portion(&[(encoded, want)])?.pop().unwrap_or_default())
    }

    fn read_portion(&self, wants: &[(&Encoded, Want<'_>)]) -> Result<Vec<Answer>> {
        if !self.constrained {
            return self.ask(wants);
        }
        // What was worked out for the states of the last question is at hand for this one.
        let mut known = std::mem::take(&mut self.ledger().outlooks);
        let keys: Vec<Option<Arc<StateKey>>> = (wants.iter())
            .map(|(encoded, _)| {
                encoded.encoding.as_ref()?;
                Some(Arc::new(self.state_key(&encoded.seq, encoded.t)))
            })
            .collect();
        let mut outlooks = Outlooks::default();
        let mut missing: Vec<(usize, Vec<usize>)> = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let Some(key) = key else { continue };
            if let Some(outlook) = known.remove(key) {
                outlooks.insert(key.clone(), outlook);
            } else if !outlooks.contains_key(key)
                && !missing.iter().any(|&(other, _)| keys[other].as_ref() == Some(key))
            {
                missing.push((index, wants[index].0.seq.masked().collect()));
            }
        }
        let questions: Vec<_> = (missing.iter())
            .map(|(index, rows)| (wants[*index].0, Want { rows, ..Want::default() }))
            .collect();
        for (&(index, _), answer) in missing.iter().zip(self.ask(&questions)?) {
            let (Some(key), seq) = (&keys[index], &wants[index].0.seq) else { continue };
            if let Some(legal) = self.constraint.open(seq)? {
                outlooks.insert(key.clone(), Outlook::new(seq, legal, answer.rows)?);
            }
        }
        let answers = (wants.iter().zip(&keys))
            .map(|((encoded, want), key)| match key.as_ref().and_then(|k| outlooks.get_mut(k)) {
                Some(outlook) => outlook.answer(want),
                None => Ok(self.ask(&[(*encoded, *want)])?.pop().unwrap_or_default()),
            })
            .collect::<Result<_>>();
        if outlooks.values().map(Outlook::bytes).sum::<usize>() <= self.encoding_bytes {
            self.ledger().outlooks = outlooks;
        }
        answers
    }

    /// Asks the denoiser, which knows the bans and no more.
    fn ask(&self, wants: &[(&Encoded, Want<'_>)]) -> Result<Vec<Answer>> {
        let bans = self.bans();
        let batch: Vec<_> = wants
            .iter()
            .filter_map(|(encoded, want)| {
                let encoding = encoded.encoding.as_ref()?;
                Some(Question { seq: &encoded.seq, encoding, bans, want: *want })
            })
            .collect();
        if batch.is_empty() {
            return Ok(vec![Answer::default(); wants.len()]);
        }
        let answers = guard::denoiser(|| self.denoiser.read(&batch))?;
        guard::rows("answers", batch.len(), answers.len())?;
        for (question, answer) in batch.iter().zip(&answers) {
            guard::answer(question, answer, self.denoiser.facts().vocab_size)?;
        }
        let mut answers = answers.into_iter();
        Ok(wants
            .iter()
            .map(|(encoded, _)| match encoded.encoding {
                Some(_) => answers.next().unwrap_or_default(),
                None => Answer::default(),
            })
            .collect())
    }
}
