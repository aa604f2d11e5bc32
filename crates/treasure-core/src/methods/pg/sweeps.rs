//! The sweeps of particle Gibbs: conditional sequential Monte Carlo along a reference.
//!
//! Guarantee: the reference keeps its slot, its states and the values it was made with, so it costs
//! neither a forward pass nor a reward call.

use std::sync::Arc;

use super::Pg;
use crate::{
    Context, Error, Flow, MaskedSeq, Particle, Problem, PruneReason, Resampling,
    context::{Needs, Step},
    population::{Node, Proposals, Weight, next_population, tell_nodes, tell_start, tell_step},
    propose::{DrawBy, Propose, purpose, sampling},
    resample::{LogWeights, draw, draw_one},
    run::{Concluded, Stepper},
    select::{Kept, Selection},
    value::{SampledCompletions, Value, Valued},
};

/// Where a particle has been, last first.
struct Line {
    node: Node,
    before: Option<Arc<Line>>,
}

/// Particle Gibbs on its way.
pub(super) struct Sweeps {
    options: Pg,
    steps: usize,
    every: usize,
    propose: Box<dyn Propose>,
    value: SampledCompletions,
    start: Arc<MaskedSeq>,
    sweep: usize,
    done: usize,
    /// The particles, in slot order; the reference is in slot 0 of every sweep but the first.
    nodes: Vec<Node>,
    lines: Vec<Option<Arc<Line>>>,
    /// The reference after each step.
    reference: Vec<Node>,
    finals: Vec<Particle>,
    best: Option<Particle>,
}

impl Sweeps {
    /// The particles at the start of a problem.
    pub(super) fn new(options: &Pg, problem: &Problem<'_>) -> Self {
        let start = problem.start().clone();
        let mut sweeps = Self {
            steps: options.sampler.steps(start.n_masked()),
            every: options.every(start.n_masked()),
            propose: sampling(options.sampler, 1),
            value: SampledCompletions {
                samples: options.x0_samples,
                draws: DrawBy::Slot,
                exact_at_the_end: true,
                of: options.weigh_by.unwrap_or_else(|| options.sampler.weigh_by()),
            },
            options: options.clone(),
            start,
            sweep: 0,
            done: 0,
            nodes: Vec::new(),
            lines: Vec::new(),
            reference: Vec::new(),
            finals: Vec::new(),
            best: None,
        };
        sweeps.restart();
        sweeps
    }

    fn restart(&mut self) {
        let particles = self.options.particles;
        self.nodes =
            (0..particles).map(|slot| Node::start(slot as u64, slot, self.start.clone())).collect();
        self.lines = (0..particles).map(|_| None).collect();
        self.done = 0;
    }

    /// How many slots the reference takes.
    fn fixed(&self) -> usize {
        usize::from(self.sweep > 0)
    }

    fn weighs(&self, step: &Step) -> bool {
        step.last || (step.index + 1).is_multiple_of(self.every)
    }

    /// Children of all particles but the reference, with their values if this step weighs.
    fn children(&self, cx: &mut Context<'_, '_>) -> Flow<(Proposals, Option<Vec<Valued>>)> {
        let step = Step { index: self.done, steps: self.steps, ..Step::default() };
        let needs = if self.weighs(&step) { self.value.needs() } else { Needs::default() };
        cx.step = Step { needs, ..step };
        let parents = &self.nodes[self.fixed()..];
        let mut proposals = self.propose.propose(cx, parents)?;
        cx.step.last = self.propose.is_last(cx, &proposals);
        if !self.weighs(&cx.step) {
            return Ok((proposals, None));
        }
        match self.value.value(cx, parents, &mut proposals) {
            Ok(valued) => Ok((proposals, Some(valued))),
            Err(halt) => {
                // The first reason to stop is the one reported.
                let _ = tell_nodes(cx, parents, &proposals, None, None);
                Err(halt)
            }
        }
    }

    /// The particles after a step, before resampling: the reference as it was, the others moved on.
    fn moved(
        &self,
        cx: &mut Context<'_, '_>,
        proposals: &Proposals,
        valued: Option<&[Valued]>,
    ) -> Vec<Node> {
        let parents = &self.nodes[self.fixed()..];
        let kept = (parents.iter().enumerate())
            .map(|(child, node)| {
                let value = valued.and_then(|valued| valued[child].ok()).map(|worth| worth.value);
                let reward = value.or(node.weight.reward);
                let weight = Weight { reward, ..Weight::default() };
                Kept { child, slot: node.slot, weight }
            })
            .collect();
        let all = Selection { kept, ..Selection::default() };
        let reference = self.reference.get(self.done).filter(|_| self.sweep > 0).cloned();
        let mut nodes: Vec<Node> = reference.into_iter().collect();
        nodes.extend(next_population(parents, proposals, &all, valued, cx));
        // log w = λ(r̂ − r̂ before): of the reference as well, from the values it was made with.
        for (node, before) in nodes.iter_mut().zip(&self.nodes) {
            let reward = |node: &Node| node.weight.reward.unwrap_or(0.0);
            node.weight.log_weight = self.options.lambda * (reward(node) - reward(before));
        }
        nodes
    }

    fn advance(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        let (proposals, valued) = self.children(cx)?;
        let (step, fixed) = (cx.step, self.fixed());
        let moved = self.moved(cx, &proposals, valued.as_deref());
        let particles = moved.len();
        let mut ancestors: Vec<usize> = (0..particles).collect();
        let mut ess = None;
        if valued.is_some() {
            let logs: Vec<f64> = moved.iter().map(|node| node.weight.log_weight).collect();
            let weights = LogWeights::new("Feynman–Kac potentials", &logs)?;
            ess = Some(weights.effective_sample_size());
            if self.sweep == 0 {
                *cx.log_normalizer.get_or_insert(0.0) += weights.log_mean();
            }
            let key = cx.key.fold(purpose::RESAMPLE).fold(step.index as u64);
            if !step.last {
                ancestors = draw(Resampling::Multinomial, &weights, key);
                // The reference keeps its slot; the others may come from it as well.
                ancestors[..fixed].fill(0);
            }
        }
        let resampled = ess.is_some() && !step.last;
        let kept = (ancestors.iter().enumerate())
            .filter(|&(_, &ancestor)| ancestor >= fixed)
            .map(|(slot, &ancestor)| Kept {
                child: ancestor - fixed,
                slot,
                weight: Weight::default(),
            })
            .collect();
        let mut selection = Selection { kept, ess, resampled, ..Selection::default() };
        let children = proposals.children.len();
        selection.fates = (0..children).map(|child| (child, PruneReason::Resampled)).collect();
        // In a trace steps are counted through all sweeps.
        cx.step.index += self.sweep * self.steps;
        let parents = &self.nodes[fixed..];
        tell_nodes(cx, parents, &proposals, Some(&selection), valued.as_deref())?;
        let lines: Vec<Arc<Line>> = (moved.iter().zip(&self.lines))
            .map(|(node, before)| Arc::new(Line { node: node.clone(), before: before.clone() }))
            .collect();
        self.lines = ancestors.iter().map(|&ancestor| Some(lines[ancestor].clone())).collect();
        self.nodes = (ancestors.iter().enumerate())
            .map(|(slot, &ancestor)| Node { slot, ..moved[ancestor].clone() })
            .collect();
        self.done += 1;
        tell_step(cx, self.steps(), &self.nodes, &proposals, valued.as_deref(), &selection)?;
        if !step.last {
            return Ok(false);
        }
        self.end_of_sweep(cx)?;
        Ok(self.sweep == self.options.iterations)
    }

    /// Draws the reference of the next sweep and begins it.
    fn end_of_sweep(&mut self, cx: &mut Context<'_, '_>) -> Flow<()> {
        self.finals = (self.nodes.iter())
            .filter_map(|node| {
                let (tokens, reward) = (node.seq.complete()?, node.weight.reward?);
                let log_weight = node.weight.log_weight;
                let tokens = tokens.to_vec();
                Some(Particle { tokens, value: reward, reward, log_p: node.log_p, log_weight })
            })
            .collect();
        for last in &self.finals {
            if self.best.as_ref().is_none_or(|best| last.reward > best.reward) {
                self.best = Some(last.clone());
            }
        }
        let logs: Vec<f64> = self.nodes.iter().map(|node| node.weight.log_weight).collect();
        let weights = LogWeights::new("Feynman–Kac potentials", &logs)?;
        let chosen = draw_one(&weights, cx.key.fold(purpose::CHOICE));
        let mut line = self.lines[chosen].clone();
        self.reference.clear();
        while let Some(at) = line.take() {
            self.reference.push(Node { slot: 0, ..at.node.clone() });
            line.clone_from(&at.before);
        }
        self.reference.reverse();
        self.sweep += 1;
        if self.sweep < self.options.iterations {
            self.restart();
        }
        Ok(())
    }
}

impl Stepper for Sweeps {
    fn steps(&self) -> usize {
        self.steps.saturating_mul(self.options.iterations)
    }

    fn step(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        cx.problem.check_deadline()?;
        if self.sweep == 0 && self.done == 0 {
            tell_start(cx, &self.nodes)?;
        }
        let sample = cx.key;
        if self.sweep > 0 {
            cx.key = sample.fold(purpose::ITERATION).fold(self.sweep as u64);
        }
        let advanced = self.advance(cx);
        cx.key = sample;
        advanced
    }

    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn conclude(&mut self, _: &mut Context<'_, '_>) -> Flow<Concluded> {
        let best = self.best.clone().ok_or_else(|| Error::Invalid {
            what: "pg",
            expected: "a finished sweep".into(),
            got: "none".into(),
        })?;
        Ok(Concluded {
            tokens: best.tokens,
            reward: Some(best.reward),
            log_p: Some(best.log_p),
            stopped: None,
            finals: std::mem::take(&mut self.finals),
        })
    }
}
