//! The one loop: propose children, value them, select the next population.
//!
//! Every method of this crate is a [`Population`] with different parts. Guarantees: every child is
//! told to the observer with its fate; a stop keeps the best complete sequence; the answer is the
//! member of the last population with the highest value, the lowest slot at a tie.

mod node;
mod stop;

pub use node::{Child, Expanded, Node, Proposals, Step, Weight};
pub(crate) use stop::resubstitute;

use std::ops::ControlFlow;

use rustc_hash::FxHashSet;

use self::stop::stopped;
use crate::{
    Error, Event, Flow, Halt, Key, NodeEvent, Note, Observer, Outcome, Particle, Problem,
    PruneReason, Result, StepEvent, StopReason,
    propose::Propose,
    select::{Select, Selection},
    value::Value,
};

/// What the parts of a loop share during a run.
pub struct Run<'r, 'p> {
    /// The problem.
    pub problem: &'r Problem<'p>,
    /// The key of the sample.
    pub key: Key,
    /// The running estimate of the log-normaliser, if the selection keeps one.
    pub log_normalizer: Option<f64>,
    observer: &'r mut dyn Observer,
    notes: Vec<Note>,
    next_id: u64,
}

impl Run<'_, '_> {
    /// Notes something once.
    pub fn note(&mut self, what: &str, message: impl FnOnce() -> String) -> Flow<()> {
        if self.notes.iter().any(|note| note.what == what) {
            return Ok(());
        }
        let note = Note { what: what.to_owned(), message: message() };
        self.notes.push(note.clone());
        self.tell(&Event::Note(note))
    }

    fn tell(&mut self, event: &Event) -> Flow<()> {
        match self.observer.observe(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Halt::Stop(StopReason::Observer)),
        }
    }
}

/// A search: `size` copies of the start state, moved by a proposal, a value and a selection.
#[derive(Clone, Debug)]
pub struct Population<P, V, S> {
    /// Copies of the start state: 1 for a tree, N for particles.
    pub size: usize,
    /// How children are made.
    pub propose: P,
    /// How children are valued.
    pub value: V,
    /// Which children live on.
    pub select: S,
}

impl<P: Propose, V: Value, S: Select> Population<P, V, S> {
    /// Runs the search. `name` and `plan` go into the trace.
    pub fn run(
        &self,
        name: &'static str,
        plan: serde_json::Value,
        problem: &Problem<'_>,
        key: Key,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        problem.begin();
        let mut run =
            Run { problem, key, log_normalizer: None, observer, notes: Vec::new(), next_id: 0 };
        let mut nodes: Vec<Node> = (0..self.size)
            .map(|slot| Node {
                id: slot as u64,
                slot,
                seq: problem.start().clone(),
                t: 1.0,
                origin: None,
                encoded: None,
                value: None,
                weight: Weight::default(),
            })
            .collect();
        run.next_id = self.size as u64;
        let steps = self.propose.steps(problem.start().n_masked());
        let mut done = 0;
        let ended = self.begin(&mut run, name, plan, &nodes, steps).and_then(|()| {
            loop {
                let last = self.step(&mut run, &mut nodes, done, steps)?;
                done += 1;
                if last {
                    return Ok(());
                }
            }
        });
        let outcome = match ended {
            Ok(()) => self.conclude(&mut run, &nodes, done),
            Err(Halt::Stop(reason)) => stopped(&mut run, &nodes, reason, done),
            Err(Halt::Fail(error)) => Err(error),
        }?;
        // The search is over: a `Break` changes nothing any more.
        let _ = run.observer.observe(&Event::End {
            tokens: outcome.tokens.clone(),
            reward: outcome.reward,
            stopped: outcome.stopped,
            cost: outcome.cost,
        });
        Ok(outcome)
    }

    fn begin(
        &self,
        run: &mut Run<'_, '_>,
        method: &'static str,
        plan: serde_json::Value,
        nodes: &[Node],
        steps: usize,
    ) -> Flow<()> {
        let start = run.problem.start().clone();
        run.tell(&Event::Start {
            method,
            plan,
            len: start.len(),
            masks: start.n_masked(),
            steps,
            start: start.slots().collect(),
        })?;
        if run.observer.wants_nodes() {
            for node in nodes {
                run.tell(&Event::Node(NodeEvent {
                    id: node.id,
                    parent: None,
                    step: None,
                    parent_slot: None,
                    slots: vec![node.slot],
                    masks_left: start.n_masked(),
                    position: None,
                    token: None,
                    also: Vec::new(),
                    rank: 0,
                    value: None,
                    kept: true,
                    reason: None,
                    tau: node.t,
                    cost: run.problem.cost(),
                }))?;
            }
        }
        Ok(())
    }

    /// One step; whether it was the last.
    fn step(
        &self,
        run: &mut Run<'_, '_>,
        nodes: &mut Vec<Node>,
        index: usize,
        steps: usize,
    ) -> Flow<bool> {
        run.problem.check_deadline()?;
        let mut step = Step { index, steps, last: false };
        let argmax = self.value.needs_argmax() && self.select.needs_values(&step);
        let mut proposals = self.propose.propose(&step, run, nodes, argmax)?;
        step.last = self.propose.is_last(&step, &proposals);
        let mut values = None;
        if self.select.needs_values(&step) {
            let valued = {
                let next_time = |run: &Run<'_, '_>, child: &Child, slot: usize| {
                    self.propose.prediction_time(&step, run, child, slot)
                };
                self.value.value(&step, run, nodes, &mut proposals, &next_time)
            };
            match valued {
                Ok(numbers) if numbers.len() == proposals.children.len() => values = Some(numbers),
                Ok(numbers) => {
                    return Err(Halt::Fail(Error::Invalid {
                        what: "value",
                        expected: format!("{} values", proposals.children.len()),
                        got: numbers.len().to_string(),
                    }));
                }
                Err(halt) => {
                    let fates = Fates { selection: None, values: None };
                    // The first reason to stop is the one reported.
                    let _ = self.tell_nodes(run, &step, nodes, &proposals, &fates);
                    return Err(halt);
                }
            }
        }
        let selection = self.select.select(&step, run, nodes, &proposals, values.as_deref())?;
        let first_id = run.next_id;
        let next: Vec<Node> = selection
            .kept
            .iter()
            .map(|kept| {
                let child = &proposals.children[kept.child];
                let parent = &nodes[child.parent];
                Node {
                    id: first_id + kept.child as u64,
                    slot: kept.slot,
                    seq: child.seq.clone(),
                    t: child.t,
                    origin: Some((parent.seq.clone(), proposals.parents[child.parent].encoded.t())),
                    encoded: child.encoded.clone(),
                    value: values.as_ref().map(|values| values[kept.child]),
                    weight: kept.weight,
                }
            })
            .collect();
        let previous = std::mem::replace(nodes, next);
        let fates = Fates { selection: Some(&selection), values: values.as_deref() };
        self.tell_nodes(run, &step, &previous, &proposals, &fates)?;
        if run.observer.wants_nodes() {
            let best_value = values.iter().flatten().copied().reduce(f64::max);
            let distinct: FxHashSet<_> =
                proposals.children.iter().map(|child| &child.seq).collect();
            run.tell(&Event::Step(StepEvent {
                step: index,
                steps,
                masks_left: nodes.iter().map(|node| node.seq.n_masked()).max().unwrap_or(0),
                population: nodes.len(),
                children: proposals.children.len(),
                distinct: distinct.len(),
                best_value,
                best_reward: run.problem.best_reward(),
                ess: selection.ess,
                resampled: selection.resampled,
                cost: run.problem.cost(),
            }))?;
        }
        Ok(step.last)
    }

    fn tell_nodes(
        &self,
        run: &mut Run<'_, '_>,
        step: &Step,
        parents: &[Node],
        proposals: &Proposals,
        fates: &Fates<'_>,
    ) -> Flow<()> {
        let first_id = run.next_id;
        run.next_id += proposals.children.len() as u64;
        if !run.observer.wants_nodes() {
            return Ok(());
        }
        let mut slots: Vec<Vec<usize>> = vec![Vec::new(); proposals.children.len()];
        for kept in fates.selection.iter().flat_map(|selection| &selection.kept) {
            slots[kept.child].push(kept.slot);
        }
        let cost = run.problem.cost();
        for (i, (child, slots)) in proposals.children.iter().zip(slots).enumerate() {
            let kept = !slots.is_empty();
            let reason = match fates.selection {
                _ if kept => None,
                None => Some(PruneReason::Stopped),
                Some(selection) => {
                    Some(selection.fates.get(&i).copied().unwrap_or(PruneReason::Beaten))
                }
            };
            run.tell(&Event::Node(NodeEvent {
                id: first_id + i as u64,
                parent: Some(parents[child.parent].id),
                step: Some(step.index),
                parent_slot: Some(parents[child.parent].slot),
                slots,
                masks_left: child.seq.n_masked(),
                position: child.reveal.map(|(position, _)| position),
                token: child.reveal.map(|(_, token)| token),
                also: child.also.clone(),
                rank: child.rank,
                // A screened child has no value, which JSON could not tell from a number.
                value: fates.values.map(|values| values[i]).filter(|value| value.is_finite()),
                kept,
                reason,
                tau: child.t,
                cost,
            }))?;
        }
        Ok(())
    }

    /// The end of a search that ran to its last step.
    fn conclude(&self, run: &mut Run<'_, '_>, nodes: &[Node], steps: usize) -> Result<Outcome> {
        let mut finals = Vec::with_capacity(nodes.len());
        for node in nodes {
            if let (Some(tokens), Some(value)) = (node.seq.complete(), node.value) {
                let log_weight = node.weight.log_weight;
                finals.push(Particle { tokens: tokens.to_vec(), value, log_weight });
            }
        }
        let best = finals
            .iter()
            .reduce(|best, next| if next.value > best.value { next } else { best })
            .ok_or_else(|| Error::Invalid {
                what: "selection",
                expected: "at least one complete sequence at the end".into(),
                got: format!("{} nodes, none complete and valued", nodes.len()),
            })?;
        let tokens = best.tokens.clone();
        let mut reward = Some(best.value);
        let mut stopped = None;
        if !self.value.exact_at_the_end() {
            let _ = run.note("exact reward", || {
                "the chosen sequence was scored once more: this variant selects by its parent's value"
                    .into()
            });
            match run.problem.score(std::slice::from_ref(&tokens)) {
                Ok(rewards) => reward = rewards.first().copied(),
                Err(Halt::Stop(StopReason::Target)) => reward = run.problem.best_reward(),
                Err(Halt::Stop(reason)) => (reward, stopped) = (None, Some(reason)),
                Err(Halt::Fail(error)) => return Err(error),
            }
        }
        Ok(Outcome {
            tokens,
            reward,
            cost: run.problem.cost(),
            stopped,
            steps,
            best_seen: run.problem.best(),
            finals,
            log_normalizer: run.log_normalizer,
            notes: std::mem::take(&mut run.notes),
        })
    }
}

/// What is known of a step's children when they are told.
struct Fates<'a> {
    selection: Option<&'a Selection>,
    values: Option<&'a [f64]>,
}
