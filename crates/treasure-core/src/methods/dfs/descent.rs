//! The steps of the search: the unguided paths, then one descent after another, each until the path
//! promises too little or ends.

use std::sync::Arc;

use super::{
    super::walk::{Told, best_of, looked_at, node_at, tell_change, walk},
    Dfs,
};
use crate::{
    Context, Event, Flow, MaskedSeq, Particle, StepEvent,
    population::{Node, tell_start},
    propose::purpose,
    run::{Concluded, Stepper},
};

/// A depth-first search on its way.
pub(super) struct Descents {
    options: Dfs,
    /// The masks that are left where a path is looked at, most first.
    levels: Vec<usize>,
    /// What the unguided paths were worth there, lowest first.
    seen: Vec<Vec<f64>>,
    start: Node,
    done: usize,
    at: Vec<Node>,
    /// Every end, the unguided ones first.
    ends: Vec<Particle>,
}

impl Descents {
    /// A search from a start state.
    pub(super) fn new(options: Dfs, start: &Arc<MaskedSeq>) -> Self {
        let nodes =
            (0..options.particles).map(|slot| Node::start(slot as u64, slot, start.clone()));
        Self {
            levels: options.levels(start.n_masked()),
            start: Node::start(0, 0, start.clone()),
            at: nodes.collect(),
            options,
            seen: Vec::new(),
            done: 0,
            ends: Vec::new(),
        }
    }

    /// Moves on to fewer masks and looks: what the states are worth there, each told below its own of
    /// `from`.
    fn look(&mut self, cx: &mut Context<'_, '_>, from: &[Node], masks: usize) -> Flow<Vec<f64>> {
        walk(cx, &mut self.at, masks)?;
        let values = looked_at(cx, &mut self.at)?;
        for ((node, parent), &value) in self.at.iter_mut().zip(from).zip(&values) {
            let (step, rank) = (self.done, node.slot);
            tell_change(cx, parent, node, Told { step, rank, value: Some(value), reason: None })?;
            let end = node.seq.complete().map(|tokens| Particle::scored(tokens.to_vec(), value));
            self.ends.extend(end);
        }
        Ok(values)
    }

    /// The paths that the thresholds come from.
    fn unguided(&mut self, cx: &mut Context<'_, '_>) -> Flow<()> {
        for look in 0..self.levels.len() {
            let mut values = self.look(cx, &self.at.clone(), self.levels[look])?;
            values.sort_by(f64::total_cmp);
            self.seen.push(values);
        }
        self.at = vec![self.start.clone()];
        Ok(())
    }

    /// On from where the path is until it promises too little, and back from there; whether it has come
    /// to an end that is good enough.
    fn descend(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        let rank = self.options.rank(self.done - 1);
        let mut from = self.at.clone();
        if self.done > 1 {
            self.at = vec![self.back(cx, &from[0])];
        }
        for look in 0..self.levels.len() {
            let masks = self.levels[look];
            if masks >= self.at[0].seq.n_masked() {
                continue;
            }
            let values = self.look(cx, &from, masks)?;
            let least = rank.checked_sub(1).map(|rank| self.seen[look][rank]);
            if least.is_some_and(|least| values[0] < least) {
                return Ok(false);
            }
            from.clone_from(&self.at);
        }
        Ok(true)
    }

    /// A state at the earlier time t′ with α(t′) = (1 − share)·α(t): every generated token is masked again
    /// with the chance `share`, and if none is, one of them.
    fn back(&self, cx: &Context<'_, '_>, node: &Node) -> Node {
        let generated: Vec<usize> =
            self.start.seq.masked().filter(|&at| node.seq.get(at).is_some()).collect();
        let key = cx.key.fold(purpose::REMASK);
        let (share, mut again) = (self.options.share, generated.clone());
        again.retain(|&at| key.fold(at as u64).uniform() < share);
        if again.is_empty() {
            again.push(generated[key.below(generated.len())]);
        }
        let schedule = cx.problem.schedule();
        let t = schedule.alpha_inv((1.0 - share) * schedule.alpha(node.t));
        node_at(Arc::new(node.seq.remask(again)), t, 0)
    }
}

impl Stepper for Descents {
    /// At most.
    fn steps(&self) -> usize {
        self.options.most().saturating_add(2)
    }

    fn step(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        cx.problem.check_deadline()?;
        let ended = if self.done == 0 {
            tell_start(cx, &self.at)?;
            self.unguided(cx)?;
            false
        } else {
            let sample = cx.key;
            cx.key = sample.fold(purpose::ITERATION).fold(self.done as u64);
            let descended = self.descend(cx);
            cx.key = sample;
            descended?
        };
        self.done += 1;
        if cx.wants_steps() {
            let best = cx.problem.best_reward();
            let children = if self.done == 1 { self.options.particles } else { 1 };
            cx.tell(&Event::Step(StepEvent {
                step: self.done - 1,
                steps: self.steps(),
                masks_left: self.at[0].seq.n_masked(),
                population: 1,
                children,
                distinct: children,
                best_value: best,
                best_reward: best,
                ess: None,
                resampled: false,
                cost: cx.problem.cost(),
            }))?;
        }
        Ok(ended)
    }

    fn nodes(&self) -> &[Node] {
        &self.at
    }

    fn conclude(&mut self, _: &mut Context<'_, '_>) -> Flow<Concluded> {
        best_of(std::mem::take(&mut self.ends), "dfs")
    }
}
