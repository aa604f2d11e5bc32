//! The one loop: propose children, value them, select the next population.
//!
//! Every method of this crate is a [`Population`] with different parts, or runs populations inside
//! itself. Guarantees: every child is told to the observer with its fate; the final answer is the
//! member of the last population with the highest value, the lowest slot at a tie.

mod node;
mod settled;

pub use node::{Child, Expanded, Node, Proposals, Weight, Worth};

use std::sync::Arc;

use settled::Settled;

use rustc_hash::FxHashSet;

use crate::{
    Context, Error, Event, Flow, Halt, MaskedSeq, NodeEvent, Particle, PruneReason, StepEvent,
    StopReason,
    context::{Needs, Step},
    propose::Propose,
    run::{Concluded, Stepper},
    select::{Candidates, Select, Selection},
    value::{Value, Valued},
};

/// A search: `size` copies of the start state, moved by a proposal, a value and a selection.
pub struct Population {
    /// Copies of the start state: 1 for a tree, N for particles.
    pub size: usize,
    /// How children are made.
    pub propose: Box<dyn Propose>,
    /// How children are valued.
    pub value: Box<dyn Value>,
    /// Which children live on.
    pub select: Box<dyn Select>,
}

/// A population on its way.
pub struct Going {
    parts: Population,
    nodes: Vec<Node>,
    settled: Option<Settled>,
    done: usize,
    steps: usize,
}

impl Population {
    /// The population at a start state, before its first step.
    pub fn begin(self, start: &Arc<MaskedSeq>) -> Going {
        let nodes =
            (0..self.size).map(|slot| Node::start(slot as u64, slot, start.clone())).collect();
        let steps = self.propose.steps(start.n_masked());
        Going { nodes, settled: None, done: 0, steps, parts: self }
    }
}

impl Going {
    /// Ends once so many steps in a row left the likeliest token of every mask of the best member as it was. Only
    /// for values that complete a child from its parent's prediction.
    #[must_use]
    pub(crate) fn settling(mut self, after: Option<usize>) -> Self {
        self.settled = after.map(Settled::new);
        self
    }

    /// The members of the population.
    pub fn members(&self) -> &[Node] {
        &self.nodes
    }

    /// The values of the children, if the step wants any.
    fn values(
        &mut self,
        cx: &mut Context<'_, '_>,
        proposals: &mut Proposals,
    ) -> Flow<Option<Vec<Valued>>> {
        if !self.parts.select.needs_values(&cx.step) {
            return Ok(None);
        }
        match self.parts.value.value(cx, &self.nodes, proposals) {
            Ok(values) if values.len() == proposals.children.len() => Ok(Some(values)),
            Ok(values) => Err(Halt::Fail(Error::Invalid {
                what: "value",
                expected: format!("{} values", proposals.children.len()),
                got: values.len().to_string(),
            })),
            Err(halt) => {
                // The first reason to stop is the one reported.
                let _ = tell_nodes(cx, &self.nodes, proposals, None, None);
                Err(halt)
            }
        }
    }

    fn advance(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        cx.problem.check_deadline()?;
        let step = Step { index: self.done, steps: self.steps, ..Step::default() };
        let needs = match self.parts.select.needs_values(&step) {
            true => self.parts.value.needs(),
            false => Needs::default(),
        };
        cx.step = Step { needs, ..step };
        let mut proposals = self.parts.propose.propose(cx, &self.nodes)?;
        if let Some(settled) = &mut self.settled
            && settled.is_reached(&self.nodes, &proposals)
        {
            return Err(Halt::Stop(StopReason::Settled));
        }
        cx.step.last = self.parts.propose.is_last(cx, &proposals);
        let valued = self.values(cx, &mut proposals)?;
        let values: Option<Vec<Option<f64>>> = (valued.as_ref())
            .map(|all| all.iter().map(|one| one.ok().map(|worth| worth.value)).collect());
        let from =
            Candidates { parents: &self.nodes, proposals: &proposals, values: values.as_deref() };
        let selection = self.parts.select.select(cx, &from)?;
        let next = next_population(&self.nodes, &proposals, &selection, valued.as_deref(), cx);
        tell_nodes(cx, &self.nodes, &proposals, Some(&selection), valued.as_deref())?;
        if let Some(settled) = &mut self.settled {
            settled.remember(&self.nodes, &proposals, &selection);
        }
        self.nodes = next;
        self.done += 1;
        tell_step(cx, self.steps, &self.nodes, &proposals, valued.as_deref(), &selection)?;
        Ok(cx.step.last)
    }
}

impl Stepper for Going {
    fn steps(&self) -> usize {
        self.steps
    }

    fn step(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        if self.done == 0 {
            tell_start(cx, &self.nodes)?;
        }
        self.advance(cx)
    }

    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn conclude(&mut self, cx: &mut Context<'_, '_>) -> Flow<Concluded> {
        let finals: Vec<Particle> = (self.nodes.iter())
            .filter_map(|node| {
                let (tokens, worth) = (node.seq.complete()?, node.worth?);
                Some(Particle {
                    tokens: tokens.to_vec(),
                    value: self.parts.select.standing(node)?,
                    reward: worth.reward,
                    log_p: node.log_p,
                    log_weight: node.weight.log_weight,
                })
            })
            .collect();
        let best = finals
            .iter()
            .reduce(|best, next| if next.value > best.value { next } else { best })
            .ok_or_else(|| Error::Invalid {
                what: "selection",
                expected: "at least one complete sequence at the end".into(),
                got: format!("{} nodes, none complete and valued", self.nodes.len()),
            })?;
        let mut answer = Concluded {
            tokens: best.tokens.clone(),
            reward: Some(best.reward),
            log_p: Some(best.log_p),
            stopped: None,
            finals: Vec::new(),
        };
        if !self.parts.value.exact_at_the_end() {
            let _ = cx.note("exact reward", || {
                "the chosen sequence was scored once more: this variant selects by its parent's value"
                    .into()
            });
            match cx.problem.score(std::slice::from_ref(&answer.tokens)) {
                Ok(rewards) => answer.reward = rewards.first().copied(),
                Err(Halt::Stop(StopReason::Target)) => answer.reward = cx.problem.best_reward(),
                Err(Halt::Stop(reason)) => {
                    (answer.reward, answer.stopped) = (None, Some(reason));
                }
                Err(fail) => return Err(fail),
            }
        }
        Ok(Concluded { finals, ..answer })
    }
}

/// Tells the start states, which have the first numbers.
pub(crate) fn tell_start(cx: &mut Context<'_, '_>, nodes: &[Node]) -> Flow<()> {
    cx.number(nodes.len());
    if cx.wants_nodes() {
        for node in nodes {
            cx.tell(&Event::Node(NodeEvent {
                slots: vec![node.slot],
                kept: true,
                ..NodeEvent::new(node.id, node.seq.n_masked(), node.t, cx.problem.cost())
            }))?;
        }
    }
    Ok(())
}

/// Tells a completed step of `steps`, which left `nodes`.
pub(crate) fn tell_step(
    cx: &mut Context<'_, '_>,
    steps: usize,
    nodes: &[Node],
    proposals: &Proposals,
    valued: Option<&[Valued]>,
    selection: &Selection,
) -> Flow<()> {
    if !cx.wants_steps() {
        return Ok(());
    }
    let distinct: FxHashSet<_> = proposals.children.iter().map(|child| &child.seq).collect();
    let values = valued.into_iter().flatten().flatten().map(|worth| worth.value);
    cx.tell(&Event::Step(StepEvent {
        step: cx.step.index,
        steps,
        masks_left: nodes.iter().map(|node| node.seq.n_masked()).max().unwrap_or(0),
        population: nodes.len(),
        children: proposals.children.len(),
        distinct: distinct.len(),
        best_value: values.reduce(f64::max),
        best_reward: cx.problem.best_reward(),
        ess: selection.ess,
        resampled: selection.resampled,
        cost: cx.problem.cost(),
    }))
}

/// The members that a selection keeps.
pub(crate) fn next_population(
    parents: &[Node],
    proposals: &Proposals,
    selection: &Selection,
    valued: Option<&[Valued]>,
    cx: &mut Context<'_, '_>,
) -> Vec<Node> {
    // Numbers are given when the children are told; peek at the first.
    let first_id = cx.number(0);
    let mut even: Vec<bool> = parents.iter().map(|parent| parent.even).collect();
    let mut earned: Vec<Option<f64>> =
        parents.iter().map(|parent| parent.worth.map(|worth| worth.reward)).collect();
    for (child, valued) in proposals.children.iter().zip(valued.into_iter().flatten()) {
        if let Ok(worth) = valued {
            let before = *earned[child.parent].get_or_insert(worth.reward);
            even[child.parent] &= before == worth.reward;
        }
    }
    (selection.kept.iter())
        .map(|kept| {
            let child = &proposals.children[kept.child];
            let parent = &parents[child.parent];
            Node {
                id: first_id + kept.child as u64,
                slot: kept.slot,
                seq: child.seq.clone(),
                t: child.t,
                origin: Some((parent.seq.clone(), proposals.parents[child.parent].encoded.t())),
                encoded: child.encoded.clone(),
                worth: valued.and_then(|valued| valued[kept.child].ok()),
                log_p: child.log_p,
                weight: kept.weight,
                placed: child.placed.clone(),
                even: even[child.parent],
            }
        })
        .collect()
}

/// Tells every child with its fate; without a selection the search was stopped before one.
pub(crate) fn tell_nodes(
    cx: &mut Context<'_, '_>,
    parents: &[Node],
    proposals: &Proposals,
    selection: Option<&Selection>,
    valued: Option<&[Valued]>,
) -> Flow<()> {
    let first_id = cx.number(proposals.children.len());
    if !cx.wants_nodes() {
        return Ok(());
    }
    let mut slots: Vec<Vec<usize>> = vec![Vec::new(); proposals.children.len()];
    let mut fates: Vec<Option<PruneReason>> = vec![None; proposals.children.len()];
    if let Some(selection) = selection {
        for kept in &selection.kept {
            slots[kept.child].push(kept.slot);
        }
        for &(child, reason) in &selection.fates {
            fates[child] = Some(reason);
        }
    }
    let cost = cx.problem.cost();
    for (i, (child, slots)) in proposals.children.iter().zip(slots).enumerate() {
        let kept = !slots.is_empty();
        let verdict = valued.map(|valued| valued[i]);
        let reason = match (selection, verdict) {
            _ if kept => None,
            (None, _) => Some(PruneReason::Stopped),
            (_, Some(Err(reason))) => Some(reason),
            _ => Some(fates[i].unwrap_or(PruneReason::Beaten)),
        };
        let worth = verdict.and_then(Result::ok);
        // What the reward alone says is told where the value says more.
        let (reward, log_p) = match worth {
            Some(worth) if worth.value.to_bits() != worth.reward.to_bits() => {
                (Some(worth.reward), Some(child.log_p))
            }
            _ => (None, None),
        };
        cx.tell(&Event::Node(NodeEvent {
            parent: Some(parents[child.parent].id),
            step: Some(cx.step.index),
            parent_slot: Some(parents[child.parent].slot),
            slots,
            position: child.reveal.map(|(position, _)| position),
            token: child.reveal.map(|(_, token)| token),
            also: child.also.clone(),
            remasked: child.remasked.clone(),
            rank: child.rank,
            value: worth.map(|worth| worth.value),
            reward,
            log_p,
            kept,
            reason,
            ..NodeEvent::new(first_id + i as u64, child.seq.n_masked(), child.t, cost)
        }))?;
    }
    Ok(())
}
