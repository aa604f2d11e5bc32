//! What a problem asks its reward: each text once, as far as the budget goes.

use std::{cmp::Ordering, sync::Arc};

use rustc_hash::FxHashMap;

use super::{Problem, asking::PORTION, ledger::Ledger};
use crate::{
    Error, Finished, Flow, Halt, Result, Reward, Scoring, StopReason, TokenId, View, guard,
    memo::{Hashed, Memo},
};

/// A complete sequence to be scored, with what is already known of it.
pub(crate) struct Scored<'a> {
    pub tokens: &'a [TokenId],
    pub view: &'a Arc<Hashed<View>>,
    /// What is added to the reward when whole texts are compared.
    pub extra: f64,
    pub log_p: Option<f64>,
}

impl Problem<'_> {
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
        self.views_of(self.scoring, completions)
    }

    fn views_of(
        &self,
        by: Scoring<'_>,
        completions: &[Vec<TokenId>],
    ) -> Flow<Vec<Arc<Hashed<View>>>> {
        let mut views = Vec::with_capacity(completions.len());
        for (index, tokens) in completions.iter().enumerate() {
            if index % PORTION == PORTION - 1 {
                self.check_deadline()?;
            }
            let view = guard::reward(by.reward, || by.reader.view(tokens))?;
            views.push(Arc::new(Hashed::new(view)));
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
        let found =
            self.score_with(self.scoring.reward, &views, left, |ledger| &mut ledger.rewards)?;
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
        let found = self.score_with(proxy.reward, &views, None, |ledger| &mut ledger.proxies)?;
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
        // Equal views count as one call, whatever is remembered behind the reward.
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
