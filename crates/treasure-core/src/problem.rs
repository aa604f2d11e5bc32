//! The only door to model and reward: it counts, checks, deduplicates and remembers.
//!
//! Guarantees: `nfe` and `reward_calls` count work done, hits count requests answered without it;
//! equal states in a batch are computed once; memory is bounded; limits hold before work begins; a
//! wrong row count, a number that is not finite or a panic is an error that names its source.

use std::{cell::RefCell, sync::Arc};

use rustc_hash::FxHashMap;

use crate::{
    Answer, Bans, Cost, Denoiser, Encoding, Error, Facts, Finished, Flow, Halt, Limits, MaskedSeq,
    Question, Result, Reward, Schedule, State, StopReason, TokenId, View, Want, guard,
    memo::{Hashed, Memo},
    schedule,
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
    pub(crate) fn complete(seq: Arc<MaskedSeq>, t: f64) -> Self {
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

type StateKey = Hashed<(Arc<MaskedSeq>, u64)>;

#[derive(Debug)]
struct Ledger {
    cost: Cost,
    encodings: Memo<StateKey, Encoding>,
    rewards: Memo<Hashed<View>, f64>,
    proxies: Memo<Hashed<View>, f64>,
    best: Option<Finished>,
}

/// One sample to search for: start state, schedule, denoiser, reward, bans and limits.
///
/// A problem serves one run at a time and forgets counts and memory when the next run begins, so the
/// same run gives the same outcome. It can move between threads but not be shared by them.
pub struct Problem<'a> {
    start: Arc<MaskedSeq>,
    schedule: &'a dyn Schedule,
    denoiser: &'a dyn Denoiser,
    reward: &'a dyn Reward,
    proxy: Option<&'a dyn Reward>,
    bans: Bans,
    limits: Limits<'a>,
    encoding_bytes: usize,
    reward_bytes: usize,
    ledger: RefCell<Ledger>,
}

impl std::fmt::Debug for Problem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Problem")
            .field("start", &self.start)
            .field("reward", &self.reward.name())
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
        reward: &'a dyn Reward,
        bans: Bans,
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
        let problem = Self {
            start: Arc::new(start),
            schedule,
            denoiser,
            reward,
            proxy: None,
            bans,
            limits,
            encoding_bytes: 256 << 20,
            reward_bytes: 64 << 20,
            ledger: RefCell::new(Ledger::new(0, 0)),
        };
        if let Some(position) = problem.start.masked().find(|&at| problem.allowed_at(at) == 0) {
            return invalid(
                "bans",
                format!("at least one allowed token at position {position}"),
                format!("all of {vocab} forbidden"),
            );
        }
        problem.begin();
        Ok(problem)
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
    pub fn with_proxy(mut self, proxy: &'a dyn Reward) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Forgets the counts, the memory and the best of an earlier run. Methods call it first.
    pub fn begin(&self) {
        *self.ledger.borrow_mut() = Ledger::new(self.encoding_bytes, self.reward_bytes);
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
        &self.bans
    }

    /// Whether predictions ignore the time.
    pub fn time_agnostic(&self) -> bool {
        self.denoiser.facts().time_agnostic
    }

    /// Whether there is a proxy to screen by.
    pub fn has_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// How many tokens may be placed at a position.
    pub fn allowed_at(&self, position: usize) -> usize {
        let Facts { vocab_size, never, .. } = self.denoiser.facts();
        let mut excluded: Vec<_> = self.bans.at(position);
        excluded.extend_from_slice(never);
        excluded.retain(|&token| (token as usize) < *vocab_size);
        excluded.sort_unstable();
        excluded.dedup();
        vocab_size - excluded.len()
    }

    /// What was spent so far.
    pub fn cost(&self) -> Cost {
        self.ledger.borrow().cost
    }

    /// The best complete sequence scored so far.
    pub fn best(&self) -> Option<Finished> {
        self.ledger.borrow().best.clone()
    }

    pub(crate) fn best_reward(&self) -> Option<f64> {
        self.ledger.borrow().best.as_ref().map(|best| best.reward)
    }

    /// Stops if the deadline has passed.
    pub(crate) fn check_deadline(&self) -> Flow<()> {
        match self.limits.deadline {
            Some(deadline) if deadline.clock.now() >= deadline.at => {
                Err(Halt::Stop(StopReason::Deadline))
            }
            _ => Ok(()),
        }
    }

    fn state_key(&self, seq: &Arc<MaskedSeq>, t: f64) -> StateKey {
        Hashed::new((seq.clone(), if self.time_agnostic() { 0 } else { t.to_bits() }))
    }

    /// Runs states through the denoiser, equal ones once. A complete sequence needs no pass.
    pub fn encode(&self, states: &[(Arc<MaskedSeq>, f64)]) -> Flow<Vec<Encoded>> {
        let mut found: Vec<Option<Encoding>> = Vec::with_capacity(states.len());
        let mut fresh: Vec<Arc<StateKey>> = Vec::new();
        let mut fresh_of: Vec<Option<usize>> = Vec::with_capacity(states.len());
        {
            let mut ledger = self.ledger.borrow_mut();
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
            if self.limits.max_nfe.is_some_and(|max| ledger.cost.nfe + fresh.len() as u64 > max) {
                return Err(Halt::Stop(StopReason::MaxNfe));
            }
        }
        let mut computed = Vec::new();
        if !fresh.is_empty() {
            self.check_deadline()?;
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
            computed = guard::denoiser(|| self.denoiser.encode(&batch))?;
            guard::rows("encodings", batch.len(), computed.len())?;
        }
        let mut ledger = self.ledger.borrow_mut();
        ledger.cost.nfe += fresh.len() as u64;
        ledger.cost.nfe_hits += (states.len() - fresh.len()) as u64;
        for (key, encoding) in fresh.into_iter().zip(&computed) {
            let weight = encoding.bytes() + key.key().0.len() * 4 + 64;
            ledger.encodings.insert(key, encoding.clone(), weight);
        }
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
        let encoding = self.ledger.borrow_mut().encodings.get(&self.state_key(seq, t))?;
        Some(Encoded { seq: seq.clone(), t, encoding: Some(encoding) })
    }

    /// Asks about encoded states; no forward pass. A complete state has an empty answer.
    pub fn read(&self, wants: &[(&Encoded, Want<'_>)]) -> Result<Vec<Answer>> {
        let batch: Vec<_> = wants
            .iter()
            .filter_map(|(encoded, want)| {
                let encoding = encoded.encoding.as_ref()?;
                Some(Question { seq: &encoded.seq, encoding, bans: &self.bans, want: *want })
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

    /// The rewards of complete sequences, equal views once. If the budget covers only some, those are
    /// scored, remembered and counted before the search stops.
    pub fn score(&self, completions: &[Vec<TokenId>]) -> Flow<Vec<f64>> {
        let left = {
            let ledger = self.ledger.borrow();
            self.limits.max_reward_calls.map(|max| max - ledger.cost.reward_calls.min(max))
        };
        let (values, calls) =
            self.score_with(self.reward, completions, left, |ledger| &mut ledger.rewards)?;
        let mut ledger = self.ledger.borrow_mut();
        let answered = values.iter().flatten().count() as u64;
        ledger.cost.reward_calls += calls;
        ledger.cost.reward_cache_hits += answered - calls;
        for (tokens, &value) in completions.iter().zip(&values) {
            if let Some(reward) = value
                && ledger.best.as_ref().is_none_or(|best| reward > best.reward)
            {
                ledger.best = Some(Finished { tokens: tokens.clone(), reward });
            }
        }
        let best = ledger.best.as_ref().map(|best| best.reward);
        if let (Some(target), Some(best)) = (self.limits.target_reward, best)
            && best >= target
        {
            return Err(Halt::Stop(StopReason::Target));
        }
        values.into_iter().collect::<Option<_>>().ok_or(Halt::Stop(StopReason::MaxRewardCalls))
    }

    /// The proxy's rewards of complete sequences; they count apart and touch no budget.
    pub fn score_proxy(&self, completions: &[Vec<TokenId>]) -> Flow<Vec<f64>> {
        let proxy = self.proxy.ok_or_else(|| Error::Invalid {
            what: "screen",
            expected: "a proxy reward (Problem::with_proxy)".into(),
            got: "none".into(),
        })?;
        let (values, calls) =
            self.score_with(proxy, completions, None, |ledger| &mut ledger.proxies)?;
        self.ledger.borrow_mut().cost.proxy_calls += calls;
        Ok(values.into_iter().flatten().collect())
    }

    /// Values (`None` beyond the calls left) and the calls made.
    fn score_with(
        &self,
        reward: &dyn Reward,
        completions: &[Vec<TokenId>],
        left: Option<u64>,
        memory: fn(&mut Ledger) -> &mut Memo<Hashed<View>, f64>,
    ) -> Flow<(Vec<Option<f64>>, u64)> {
        let mut fresh: Vec<Arc<Hashed<View>>> = Vec::new();
        let mut slots: Vec<Result<f64, usize>> = Vec::with_capacity(completions.len());
        let mut seen: FxHashMap<Arc<Hashed<View>>, usize> = FxHashMap::default();
        for tokens in completions {
            let view = Hashed::new(guard::reward(reward, || reward.view(tokens))?);
            slots.push(match memory(&mut self.ledger.borrow_mut()).get(&view) {
                Some(value) => Ok(value),
                None => {
                    let view = Arc::new(view);
                    Err(*seen.entry(view.clone()).or_insert_with(|| {
                        fresh.push(view);
                        fresh.len() - 1
                    }))
                }
            });
        }
        let wanted = fresh.len();
        fresh.truncate(left.map_or(wanted, |left| usize::try_from(left).unwrap_or(wanted)));
        let mut computed = Vec::new();
        if !fresh.is_empty() {
            self.check_deadline()?;
            let batch: Vec<&View> = fresh.iter().map(|view| view.key()).collect();
            computed = guard::reward(reward, || reward.score(&batch))?;
            guard::scores(reward, &batch, &computed)?;
        }
        let calls = fresh.len() as u64;
        let mut ledger = self.ledger.borrow_mut();
        for (view, &value) in fresh.into_iter().zip(&computed) {
            let weight = 96
                + match view.key() {
                    View::Tokens(tokens) => tokens.len() * 4,
                    View::Text(text) => text.len(),
                };
            memory(&mut ledger).insert(view, value, weight);
        }
        let values = slots
            .into_iter()
            .map(|slot| slot.map_or_else(|index| computed.get(index).copied(), Some))
            .collect();
        Ok((values, calls))
    }
}

impl Ledger {
    fn new(encoding_bytes: usize, reward_bytes: usize) -> Self {
        Self {
            cost: Cost::default(),
            encodings: Memo::new(encoding_bytes),
            rewards: Memo::new(reward_bytes),
            proxies: Memo::new(reward_bytes),
            best: None,
        }
    }
}
