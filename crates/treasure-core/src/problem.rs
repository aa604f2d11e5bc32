//! The only door to model and reward: it counts, checks, deduplicates and remembers.
//!
//! Guarantees: `nfe` and `reward_calls` count work done, hits count requests answered without it;
//! equal states in a batch are computed once; memory is bounded; limits hold before work begins; a
//! wrong row count, a number that is not finite or a panic is an error that names its source.

mod asking;
mod ledger;
mod scoring;

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use asking::Encoded;
use ledger::{Ledger, StateKey};
pub(crate) use scoring::Scored;

use crate::{
    AnswerKind, Bans, Constraint, Cost, Denoiser, Error, Facts, Finished, Flow, Halt, Key, Limits,
    MaskedSeq, Observer, Result, Run, Schedule, Scoring, TokenId, TokenSet, legal::Outlook,
    methods::Search, schedule,
};

/// One sample to search for: start state, schedule, denoiser, reward, constraint and limits.
///
/// A problem serves one run at a time and forgets counts and memory when the next run begins, so the
/// same run gives the same outcome.
#[derive(Clone)]
pub struct Problem<'a> {
    start: Arc<MaskedSeq>,
    schedule: &'a dyn Schedule,
    denoiser: &'a dyn Denoiser,
    scoring: Scoring<'a>,
    proxy: Option<Scoring<'a>>,
    constraint: Arc<dyn Constraint + 'a>,
    /// Whether more than bans says what may be placed.
    constrained: bool,
    ends: Vec<TokenId>,
    limits: Limits<'a>,
    answer: AnswerKind,
    /// A finished text to begin from.
    given: Option<Arc<[TokenId]>>,
    encoding_bytes: usize,
    reward_bytes: usize,
    /// Whether this is a part of another problem's run, whose ledger it shares.
    inside: bool,
    ledger: Arc<Mutex<Ledger>>,
}

impl std::fmt::Debug for Problem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Problem")
            .field("start", &self.start)
            .field("reward", &self.scoring.reward.name())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<'a> Problem<'a> {
    /// A problem, after checking that it can be searched at all.
    pub fn new(
        start: MaskedSeq,
        schedule: &'a dyn Schedule,
        denoiser: &'a dyn Denoiser,
        reward: impl Into<Scoring<'a>>,
        constraint: impl Constraint + 'a,
        limits: Limits<'a>,
    ) -> Result<Self> {
        let invalid =
            |what, expected: String, got: String| Err(Error::Invalid { what, expected, got });
        if start.n_masked() == 0 {
            return invalid(
                "start state",
                "at least one mask to fill".into(),
                format!("0 masks in {} positions", start.len()),
            );
        }
        let Facts { vocab_size: vocab, max_len, .. } = *denoiser.facts();
        if start.len() > max_len {
            return invalid(
                "sequence length",
                format!("at most {max_len} (the denoiser's)"),
                start.len().to_string(),
            );
        }
        if let Some(token) = start.slots().flatten().find(|&token| token as usize >= vocab) {
            return invalid("start state", format!("token ids below {vocab}"), token.to_string());
        }
        if limits.target_reward.is_some_and(f64::is_nan) {
            return invalid("target reward", "a number".into(), "NaN".into());
        }
        schedule::check_domain(schedule)?;
        let constrained = constraint.open(&start)?.is_some();
        let problem = Self {
            start: Arc::new(start),
            schedule,
            denoiser,
            scoring: reward.into(),
            proxy: None,
            constraint: Arc::new(constraint),
            constrained,
            ends: Vec::new(),
            limits,
            answer: AnswerKind::Final,
            given: None,
            encoding_bytes: 256 << 20,
            reward_bytes: 64 << 20,
            inside: false,
            ledger: Arc::new(Mutex::new(Ledger::new(0, 0))),
        };
        for position in problem.start.masked() {
            if problem.allowed_at(&problem.start, position)? == 0 {
                return invalid(
                    "bans",
                    format!("at least one allowed token at position {position}"),
                    format!("all of {vocab} forbidden"),
                );
            }
        }
        problem.begin();
        Ok(problem)
    }

    /// A finished text to begin from; it must agree with the start state where that has tokens.
    pub fn with_given(mut self, tokens: &[TokenId]) -> Result<Self> {
        let invalid = |expected: String, got: String| {
            Err(Error::Invalid { what: "given text", expected, got })
        };
        if tokens.len() != self.start.len() {
            return invalid(format!("{} tokens", self.start.len()), tokens.len().to_string());
        }
        let vocab = self.denoiser.facts().vocab_size;
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return invalid(format!("token ids below {vocab}"), token.to_string());
        }
        let differs =
            |(slot, token): (Option<TokenId>, &TokenId)| slot.is_some_and(|s| s != *token);
        if let Some(at) = self.start.slots().zip(tokens).position(differs) {
            let expected = format!("the token of the start state at position {at}");
            return invalid(expected, tokens[at].to_string());
        }
        self.constraint.open(&MaskedSeq::from_slots(tokens.iter().map(|&token| Some(token))))?;
        self.given = Some(tokens.into());
        Ok(self)
    }

    /// The finished text to begin from, if there is one.
    pub fn given(&self) -> Option<&[TokenId]> {
        self.given.as_deref()
    }

    /// Bounds the memory for encodings and for rewards, in bytes. Less memory may cost more work but
    /// changes no value.
    #[must_use]
    pub fn with_memory(mut self, encoding_bytes: usize, reward_bytes: usize) -> Self {
        (self.encoding_bytes, self.reward_bytes) = (encoding_bytes, reward_bytes);
        self.begin();
        self
    }

    /// A cheap reward that a screened search ranks children by.
    #[must_use]
    pub fn with_proxy(mut self, proxy: impl Into<Scoring<'a>>) -> Self {
        self.proxy = Some(proxy.into());
        self
    }

    /// The tokens that end a text.
    #[must_use]
    pub fn with_ends(mut self, ends: &[TokenId]) -> Self {
        self.ends = ends.to_vec();
        self
    }

    /// Which text a run hands back.
    #[must_use]
    pub fn with_answer(mut self, answer: AnswerKind) -> Self {
        self.answer = answer;
        self
    }

    /// A run of a method, which the caller may drive.
    pub fn run<'r>(
        &'r self,
        method: &(impl Search + ?Sized),
        key: Key,
        observer: &'r mut dyn Observer,
    ) -> Result<Run<'r, 'a>> {
        if self.answer == AnswerKind::Draw && !method.is_sampler() {
            return Err(Error::Invalid {
                what: "answer",
                expected: format!("final or best-seen: {} does not sample", method.name()),
                got: "draw".into(),
            });
        }
        Run::new(method, self, key, observer)
    }

    /// The same problem from another start, inside a run of this one: counts, memory, budgets and the
    /// best so far are shared, so that costs add up and limits hold across.
    pub fn continue_from(&self, start: MaskedSeq) -> Self {
        Self { start: Arc::new(start), given: None, inside: true, ..self.clone() }
    }

    /// Forgets the counts, the memory and the best of an earlier run, unless this is part of one.
    pub(crate) fn begin(&self) {
        if !self.inside {
            *self.ledger() = Ledger::new(self.encoding_bytes, self.reward_bytes);
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Every update leaves the ledger whole.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The start state.
    pub fn start(&self) -> &Arc<MaskedSeq> {
        &self.start
    }

    /// The noise schedule.
    pub fn schedule(&self) -> &'a dyn Schedule {
        self.schedule
    }

    /// The tokens that may not appear.
    pub fn bans(&self) -> &Bans {
        self.constraint.bans()
    }

    /// Whether predictions ignore the time.
    pub fn time_agnostic(&self) -> bool {
        self.denoiser.facts().time_agnostic
    }

    /// The tokens that end a text.
    pub fn ends(&self) -> &[TokenId] {
        &self.ends
    }

    /// Which text a run hands back.
    pub fn answer(&self) -> AnswerKind {
        self.answer
    }

    /// A number that no reward exceeds, if the reward promises one.
    pub fn reward_bound(&self) -> Option<f64> {
        self.scoring.reward.range().upper_bound()
    }

    /// Whether more than bans says what may be placed.
    pub fn is_constrained(&self) -> bool {
        self.constrained
    }

    /// The positions that hold padding once a token stands at `position`.
    pub fn padding(&self, position: usize, token: TokenId) -> Range<usize> {
        self.constraint.padding(position, token)
    }

    /// How many tokens may be placed at a position of a state.
    pub fn allowed_at(&self, state: &MaskedSeq, position: usize) -> Result<usize> {
        let Facts { vocab_size, never, .. } = self.denoiser.facts();
        let mut excluded: Vec<_> = self.bans().at(position);
        excluded.extend_from_slice(never);
        excluded.retain(|&token| (token as usize) < *vocab_size);
        excluded.sort_unstable();
        excluded.dedup();
        if !self.constrained {
            return Ok(vocab_size - excluded.len());
        }
        let mut set = TokenSet::default();
        let ledger = self.ledger();
        let same = |(key, _): &(&Arc<StateKey>, &Outlook)| *key.key().0 == *state;
        match ledger.outlooks.iter().find(same) {
            Some((_, outlook)) => outlook.legal().allowed(position, *vocab_size, &mut set),
            None => match self.constraint.open(state)? {
                Some(legal) => legal.allowed(position, *vocab_size, &mut set),
                None => set = TokenSet::all(*vocab_size),
            },
        }
        drop(ledger);
        excluded.into_iter().for_each(|token| set.remove(token));
        Ok(set.count())
    }

    /// What was spent so far.
    pub fn cost(&self) -> Cost {
        self.ledger().cost
    }

    /// The best complete sequence scored so far.
    pub fn best(&self) -> Option<Finished> {
        self.ledger().best.clone()
    }

    /// The reward of the best complete sequence scored so far.
    pub fn best_reward(&self) -> Option<f64> {
        self.ledger().best.as_ref().map(|best| best.reward)
    }

    /// What the best complete sequence so far is compared by.
    pub(crate) fn best_value(&self) -> Option<f64> {
        self.ledger().best.as_ref().map(|best| best.value)
    }

    /// The sequence that reached the target.
    pub(crate) fn at_target(&self) -> Option<Finished> {
        self.ledger().at_target.clone()
    }

    /// Stops if the run was cancelled or the deadline has passed.
    pub fn check_deadline(&self) -> Flow<()> {
        self.limits.over().map_or(Ok(()), |reason| Err(Halt::Stop(reason)))
    }
}
