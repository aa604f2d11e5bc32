//! The row of a finished search: its text, what rewards and judges make of it, and what it cost.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use treasure_core::{AnswerKind, Error as CoreError, Outcome, StopReason, until};
use treasure_rewards::{Pipeline, TextReward, metrics};
use treasure_text::{Conventions, Start};

use super::{Job, Parts};
use crate::{Cost, Error, ErrorKind, HeldOut, ROW_VERSION, Result, Sample};

/// How long rewards and judges may take for the last text of a search that was told to stop.
const FAREWELL: Duration = Duration::from_millis(350);

impl Parts {
    pub(super) fn row(
        &self,
        job: &Job,
        start: &Start,
        pipeline: &Pipeline,
        found: Outcome,
        seconds: f64,
    ) -> Result<Sample> {
        let plan = &self.plan;
        let rendered = pipeline.render(&found.tokens)?;
        let hurry = Hurry::new(found.stopped);
        let (reward, rewards) = self.rewards(pipeline, &found, &hurry)?;
        let continuation = rendered.continuation().to_string();
        if let (Some(rule), Some(rules)) = (&plan.rule, &self.rules)
            && !rules.accept(rule, &continuation)?
        {
            // The tables say otherwise, so decoding did something that they do not know.
            return Err(Error::new(
                ErrorKind::Search,
                format!("constraint: expected a text that satisfies it, got {continuation:?}"),
            )
            .with_hint("please report the tokenizer and the constraint"));
        }
        let mut notes: Vec<String> =
            found.notes.iter().map(|note| format!("{}: {}", note.what, note.message)).collect();
        let held_out = match hurry.within(|| self.held_out(&rendered.text, &continuation)) {
            Err(error) if hurry.is_why(&error) => {
                notes.push("held-out judges: not asked, since the search was stopped".into());
                None
            }
            held_out => held_out?,
        };
        notes.extend(self.cut_short(&rendered.text, held_out.is_some())?);
        notes.extend(plan.unmet(reward));
        Ok(Sample {
            version: ROW_VERSION,
            prompt: rendered.text[..rendered.prompt_bytes].to_string(),
            continuation,
            // What satisfies a constraint is whole, however long.
            cut: plan.rule.is_none()
                && !start.ends.is_empty()
                && rendered.tokens.len() >= start.state.n_masked(),
            text: rendered.text,
            tokens: rendered.tokens,
            reward,
            reward_final: (plan.answer == AnswerKind::BestSeen)
                .then_some(found.reward_final)
                .flatten(),
            rewards,
            log_p: found.log_p,
            method: plan.method.name().to_string(),
            seed: plan.seed,
            prompt_index: job.prompt_index as u64,
            sample: job.sample as u64,
            stopped: found.stopped.map(|reason| stop_name(reason).to_owned()),
            notes,
            held_out,
            before: plan.given.as_ref().map(|given| given.text.clone()),
            reward_before: found.reward_before,
            cost: Cost::new(found.cost, seconds),
            plan: self.plan_row.clone(),
            extra: job.extra.clone(),
            tree: found.tree,
            trace: None,
        })
    }

    /// The reward of the text that was found, and its parts.
    fn rewards(
        &self,
        pipeline: &Pipeline,
        found: &Outcome,
        hurry: &Hurry,
    ) -> Result<(f64, Map<String, Value>)> {
        let (whole, parts) = (self.plan.reward.to_string(), self.plan.reward.parts());
        let alone = |reward: f64| (reward, Map::from_iter([(whole.clone(), reward.into())]));
        match (parts.as_slice(), found.reward) {
            // One part is the reward itself: there is nothing to take apart.
            ([only], Some(reward)) if only.written == whole => return Ok(alone(reward)),
            _ => {}
        }
        match hurry.within(|| Ok(pipeline.breakdown(&found.tokens)?)) {
            Ok(breakdown) => {
                let parts = breakdown.parts.into_iter().map(|(name, value)| (name, value.into()));
                Ok((found.reward.unwrap_or(breakdown.total), parts.collect()))
            }
            Err(error) if hurry.is_why(&error) => match (found.reward, found.stopped) {
                (Some(reward), _) => Ok(alone(reward)),
                // A text that no reward has seen is no answer.
                (None, Some(reason)) => {
                    let (steps, masks, cost) = (found.steps, 0, found.cost);
                    Err(CoreError::Stopped { reason, steps, masks, cost }.into())
                }
                (None, None) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Who read the beginning of a text only, since it is longer than they take.
    fn cut_short(&self, text: &str, judged: bool) -> Result<Vec<String>> {
        if self.plan.preset.conventions() == Conventions::Fk {
            return Ok(Vec::new()); // its windows are short on purpose
        }
        let judges = self.judges.iter().map(|(_, judge)| judge).filter(|_| judged);
        let asked = std::iter::once(&self.reward).chain(&self.proxy).chain(judges);
        let fluency = self.fluency.iter().filter(|_| judged);
        let (mut asked_once, mut notes) = (HashSet::new(), Vec::new());
        for leaf in asked.flat_map(|composite| composite.leaves()).chain(fluency) {
            if asked_once.insert(leaf.name())
                && let Some(most) = leaf.cut(text)?
            {
                notes.push(format!(
                    "{}: saw {most} tokens only, the most it reads; the text is longer",
                    leaf.name()
                ));
            }
        }
        Ok(notes)
    }

    fn held_out(&self, text: &str, continuation: &str) -> Result<Option<HeldOut>> {
        if self.judges.is_empty() {
            return Ok(None);
        }
        let mut judges = Map::new();
        for (name, judge) in &self.judges {
            let total = TextReward::score(&**judge, &[text])?.first().copied();
            judges.insert(name.clone(), total.into());
        }
        let perplexity = match &self.fluency {
            Some(fluency) => fluency.score(&[text])?.first().map(|value| (-value).exp()),
            None => None,
        };
        let dist = [1, 2, 3].map(|n| metrics::dist(&[continuation], n));
        Ok(Some(HeldOut { judges, perplexity, dist }))
    }
}

/// What remains to be done for a text when somebody waits for it who said stop.
struct Hurry(Option<Instant>);

impl Hurry {
    fn new(stopped: Option<StopReason>) -> Self {
        let pressed = matches!(stopped, Some(StopReason::Deadline | StopReason::Cancelled));
        Self(pressed.then(|| Instant::now() + FAREWELL))
    }

    fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }

    /// Runs a call that gives up when it takes too long.
    fn within<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.0 {
            Some(_) => until(&|| self.is_over(), call),
            None => call(),
        }
    }

    /// Whether a call failed for no other reason than that.
    fn is_why(&self, error: &Error) -> bool {
        self.is_over() && treasure_rewards::Error::is_interruption(error)
    }
}

/// Why a search ended early, in the words of the options.
fn stop_name(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxNfe => "max-nfe",
        StopReason::MaxRewardCalls => "max-reward-calls",
        StopReason::Deadline => "max-seconds",
        StopReason::Target => "target-reward",
        StopReason::Settled => "settled",
        StopReason::Observer | StopReason::Cancelled | StopReason::Caller => "interrupted",
    }
}
