//! The only door to model and reward: it counts, checks, deduplicates and remembers.
//!
//! Guarantees: `nfe` and `reward_calls` count work done, hits count requests answered without it;
//! equal states in a batch are computed once; memory is bounded; limits hold before work begins; a
//! wrong row count, a number that is not finite or a panic is an error that names its source.

use std::{
    cmp::Ordering,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustc_hash::FxHashMap;

use crate::{
    Answer, AnswerKind, Bans, Constraint, Cost, Denoiser, Encoding, Error, Facts, Finished, Flow,
    Halt, Key, Limits, MaskedSeq, Observer, Question, Result, Reward, Run, Schedule, State,
    StopReason, TokenId, TokenSet, View, Want, guard,
    legal::Outlook,
    memo::{Hashed, Memo},
    methods::Search,
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

type StateKey = Hashed<(Arc<MaskedSeq>, u64)>;

/// States as a constraint sees them.
type Outlooks = FxHashMap<Arc<StateKey>, Outlook>;

#[derive(Debug)]
struct Ledger {
    cost: Cost,
    encodings: Memo<StateKey, Encoding>,
    rewards: Memo<Hashed<View>, f64>,
    proxies: Memo<Hashed<View>, f64>,
    /// What the last question under a constraint was answered from.
    outlooks: Outlooks,
    best: Option<Finished>,
    at_target: Option<Finished>,
}

/// A complete sequence to be scored, with what is already known of it.
pub(crate) struct Scored<'a> {
    pub tokens: &'a [TokenId],
    pub view: &'a Arc<Hashed<View>>,
    /// What is added to the reward when whole texts are compared.
    pub extra: f64,
    pub log_p: Option<f64>,
}

/// States or texts that are run between two looks at the clock.
const PORTION: usize = 64;

/// Tokens of states that are run between two looks at the clock, unless one state has more.
const TOKENS: usize = 1 << 14;

/// One sample to search for: start state, schedule, denoiser, reward, constraint and limits.
///
/// A problem serves one run at a time and forgets counts and memory when the next run begins, so the
/// same run gives the same outcome.
#[derive(Clone)]
pub struct Problem<'a> {
    start: Arc<MaskedSeq>,
    schedule: &'a dyn Schedule,
    denoiser: &'a dyn Denoiser,
    reward: &'a dyn Reward,
    proxy: Option<&'a dyn Reward>,
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
            reward,
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
    pub fn with_proxy(mut self, proxy: &'a dyn Reward) -> Self {
        self.proxy = Some(proxy);
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
        self.reward.upper_bound()
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

    /// The rewards of complete sequences, equal views once. If the budget or the time covers only some,
    /// those are scored, remembered and counted before the search stops.
    pub fn score(&self, completions: &[Vec<TokenId>]) -> Flow<Vec<f64>> {
        let views = self.views(completions)?;
        let batch: Vec<Scored<'_>> = (completions.iter().zip(&views))
            .map(|(tokens, view)| Scored { tokens, view, extra: 0.0, log_p: None })
            .collect();
        self.score_views(&batch)
    }

    /// What the reward sees of complete sequences.
    pub(crate) fn views(&self, completions: &[Vec<TokenId>]) -> Flow<Vec<Arc<Hashed<View>>>> {
        self.views_of(self.reward, completions)
    }

    fn views_of(
        &self,
        reward: &dyn Reward,
        completions: &[Vec<TokenId>],
    ) -> Flow<Vec<Arc<Hashed<View>>>> {
        let mut views = Vec::with_capacity(completions.len());
        for (index, tokens) in completions.iter().enumerate() {
            if index % PORTION == PORTION - 1 {
                self.check_deadline()?;
            }
            views.push(view_of(reward, tokens)?);
        }
        Ok(views)
    }

    /// Whether a view has been scored before.
    pub(crate) fn knows(&self, view: &Hashed<View>) -> bool {
        self.ledger().rewards.get(view).is_some()
    }

    /// Counts a score that a bound made needless.
    pub(crate) fn skipped(&self) {
        self.ledger().cost.reward_skips += 1;
    }

    /// The rewards of views, and the best of whole texts by reward and what is added to it.
    pub(crate) fn score_views(&self, batch: &[Scored<'_>]) -> Flow<Vec<f64>> {
        let left = {
            let ledger = self.ledger();
            self.limits.max_reward_calls.map(|max| max - ledger.cost.reward_calls.min(max))
        };
        let views: Vec<_> = batch.iter().map(|scored| scored.view.clone()).collect();
        let found = self.score_with(self.reward, &views, left, |ledger| &mut ledger.rewards)?;
        let mut ledger = self.ledger();
        let answered = found.values.iter().flatten().count() as u64;
        ledger.cost.reward_calls += found.calls;
        ledger.cost.reward_cache_hits += answered - found.calls;
        let target = self.limits.target_reward;
        let mut reached: Option<Finished> = None;
        for (scored, &value) in batch.iter().zip(&found.values) {
            let Some(reward) = value else { continue };
            let value = reward + scored.extra;
            let finished =
                || Finished { tokens: scored.tokens.to_vec(), reward, value, log_p: scored.log_p };
            if ledger.best.as_ref().is_none_or(|best| beats(value, scored, best)) {
                ledger.best = Some(finished());
            }
            if target.is_some_and(|target| reward >= target)
                && reached.as_ref().is_none_or(|best| value > best.value)
            {
                reached = Some(finished());
            }
        }
        if reached.is_some() {
            ledger.at_target = reached;
            return Err(Halt::Stop(StopReason::Target));
        }
        drop(ledger);
        let short = found.stopped.unwrap_or(StopReason::MaxRewardCalls);
        found.values.into_iter().collect::<Option<_>>().ok_or(Halt::Stop(short))
    }

    /// The proxy's rewards of complete sequences; they count apart and touch no budget.
    pub fn score_proxy(&self, completions: &[Vec<TokenId>]) -> Flow<Vec<f64>> {
        let proxy = self.proxy.ok_or_else(|| Error::Invalid {
            what: "screen",
            expected: "a proxy reward (Problem::with_proxy)".into(),
            got: "none".into(),
        })?;
        let views = self.views_of(proxy, completions)?;
        let found = self.score_with(proxy, &views, None, |ledger| &mut ledger.proxies)?;
        self.ledger().cost.proxy_calls += found.calls;
        if let Some(reason) = found.stopped {
            return Err(Halt::Stop(reason));
        }
        Ok(found.values.into_iter().flatten().collect())
    }

    /// Scores views; `None` beyond the calls left or the deadline.
    fn score_with(
        &self,
        reward: &dyn Reward,
        views: &[Arc<Hashed<View>>],
        left: Option<u64>,
        memory: fn(&mut Ledger) -> &mut Memo<Hashed<View>, f64>,
    ) -> Flow<Found> {
        let mut fresh: Vec<Arc<Hashed<View>>> = Vec::new();
        let mut slots: Vec<Result<f64, usize>> = Vec::with_capacity(views.len());
        let mut seen: FxHashMap<Arc<Hashed<View>>, usize> = FxHashMap::default();
        for view in views {
            slots.push(match memory(&mut self.ledger()).get(view) {
                Some(value) => Ok(value),
                None => Err(*seen.entry(view.clone()).or_insert_with(|| {
                    fresh.push(view.clone());
                    fresh.len() - 1
                })),
            });
        }
        let wanted = fresh.len();
        fresh.truncate(left.map_or(wanted, |left| usize::try_from(left).unwrap_or(wanted)));
        let mut computed: Vec<f64> = Vec::with_capacity(fresh.len());
        let mut stopped = None;
        for portion in fresh.chunks(PORTION) {
            let batch: Vec<&View> = portion.iter().map(|view| view.key()).collect();
            let call = || guard::reward(reward, || reward.score(&batch));
            match self.check_deadline().and_then(|()| self.limits.within(call)) {
                Ok(scores) => {
                    guard::scores(reward, &batch, &scores)?;
                    computed.extend(scores);
                }
                Err(Halt::Stop(reason)) => {
                    stopped = Some(reason);
                    break;
                }
                Err(failed) => return Err(failed),
            }
        }
        let calls = computed.len() as u64;
        let mut ledger = self.ledger();
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
        Ok(Found { values, calls, stopped })
    }
}

/// What scoring some views came to.
struct Found {
    values: Vec<Option<f64>>,
    calls: u64,
    stopped: Option<StopReason>,
}

/// Whether a scored sequence takes the place of the best so far. Of equal plain rewards the first
/// stays; with a taste, which may score in another order, ties go by log p and then by the tokens.
fn beats(value: f64, scored: &Scored<'_>, best: &Finished) -> bool {
    match (scored.log_p, best.log_p) {
        (Some(new), Some(old)) if value == best.value => match new.total_cmp(&old) {
            Ordering::Equal => scored.tokens < best.tokens.as_slice(),
            order => order == Ordering::Greater,
        },
        _ => value > best.value,
    }
}

/// What a reward sees of a sequence.
fn view_of(reward: &dyn Reward, tokens: &[TokenId]) -> Result<Arc<Hashed<View>>> {
    Ok(Arc::new(Hashed::new(guard::reward(reward, || reward.view(tokens))?)))
}

impl Ledger {
    fn new(encoding_bytes: usize, reward_bytes: usize) -> Self {
        Self {
            cost: Cost::default(),
            encodings: Memo::new(encoding_bytes),
            rewards: Memo::new(reward_bytes),
            proxies: Memo::new(reward_bytes),
            outlooks: Outlooks::default(),
            best: None,
            at_target: None,
        }
    }
}
