//! PUCT over tokens (MEDAL, UnMaskFork and the token-level searches before them): an iteration walks down
//! by value and prior, expands one state over its likeliest tokens, and values them by resubstitution.
//!
//! One forward pass and b reward calls an iteration, no rollouts. Values are scaled to [0, 1] by the range
//! seen, so that the constant of exploration does not depend on the reward. Draws by state, as a tree.

use std::sync::Arc;

use super::{
    super::walk::{Told, missing, tell_change},
    Backup, DtsStar,
};
use crate::{
    Context, Event, Flow, MaskedSeq, Particle, StepEvent,
    context::Step,
    population::{Node, tell_start},
    propose::{DrawBy, FirstHitting, Propose, Reveal},
    run::{Concluded, Stepper},
    select::{Kept, Selection},
    value::{Resubstitute, Value, resubstituted},
};

/// A state of the tree.
struct Branch {
    node: Node,
    parent: Option<usize>,
    children: Vec<usize>,
    prior: f64,
    visits: f64,
    /// What it is worth: by resubstitution until it is visited, then by what was found below.
    value: f64,
}

/// A tree of tokens on its way.
pub(super) struct Tokens {
    options: DtsStar,
    branches: Vec<Branch>,
    done: usize,
    at: Vec<Node>,
    best: Option<Particle>,
    /// The lowest and the highest reward seen.
    range: Option<(f64, f64)>,
}

/// A tree of one start state.
pub(super) fn grown(start: &Arc<MaskedSeq>, options: DtsStar) -> Tokens {
    let node = Node::start(0, 0, start.clone());
    let root = Branch {
        node: node.clone(),
        parent: None,
        children: Vec::new(),
        prior: 1.0,
        visits: 0.0,
        value: 0.0,
    };
    Tokens { options, branches: vec![root], done: 0, at: vec![node], best: None, range: None }
}

impl Tokens {
    fn scaled(&self, value: f64) -> f64 {
        match self.range {
            Some((low, high)) if high > low => (value - low) / (high - low),
            _ => 0.5,
        }
    }

    /// The child with the highest Q + c P √N / (1 + n); the likelier at a tie.
    fn choice(&self, at: usize) -> Option<usize> {
        let branch = &self.branches[at];
        let bound = |child: usize| {
            let child = &self.branches[child];
            let explored = child.prior * branch.visits.sqrt() / (1.0 + child.visits);
            self.scaled(child.value) + self.options.explore * explored
        };
        let better = |best: usize, next: usize| if bound(next) > bound(best) { next } else { best };
        branch.children.iter().copied().reduce(better)
    }

    fn descend(&self) -> usize {
        let mut at = 0;
        while let Some(child) = self.choice(at) {
            at = child;
        }
        at
    }

    /// The children of a state; the highest of their values.
    fn expand(&mut self, cx: &mut Context<'_, '_>, from: usize) -> Flow<f64> {
        let node = self.branches[from].node.clone();
        let steps = cx.problem.start().n_masked();
        self.at = vec![node.clone()];
        let (index, value) = (steps - node.seq.n_masked().min(steps), Resubstitute::default());
        cx.step = Step { index, steps, needs: value.needs(), last: false };
        let beam = self.options.beam_width.clone();
        let reveal = Reveal::Top { beam, groups: 1, min_p: 0.0, widen: 0 };
        let hitting = FirstHitting { draws: DrawBy::State, ..FirstHitting::new(reveal) };
        let parents = [node];
        let mut proposals = hitting.propose(cx, &parents)?;
        let valued = value.value(cx, &parents, &mut proposals)?;
        let kept = (0..proposals.children.len())
            .map(|child| Kept { child, slot: child, weight: Default::default() })
            .collect();
        let all = Selection { kept, ..Selection::default() };
        let nodes = crate::population::next_population(
            &parents,
            &proposals,
            &all,
            Some(valued.as_slice()),
            cx,
        );
        let masses: Vec<f64> =
            proposals.children.iter().map(|child| child.log_mass.exp()).collect();
        let total: f64 = masses.iter().sum();
        let texts = resubstituted(&parents, &proposals)?;
        let mut highest = f64::NEG_INFINITY;
        for (rank, ((mut node, text), mass)) in nodes.into_iter().zip(texts).zip(masses).enumerate()
        {
            let reward = node.worth.ok_or_else(|| missing("tree", "a scored child"))?.reward;
            highest = highest.max(reward);
            let (low, high) = self.range.unwrap_or((reward, reward));
            self.range = Some((low.min(reward), high.max(reward)));
            if self.best.as_ref().is_none_or(|best| reward > best.reward) {
                self.best = Some(Particle {
                    tokens: text.tokens,
                    value: reward,
                    reward,
                    log_p: node.log_p,
                    log_weight: 0.0,
                });
            }
            let told = Told { step: self.done, rank, value: Some(reward), reason: None };
            tell_change(cx, &self.branches[from].node, &mut node, told)?;
            self.branches.push(Branch {
                node,
                parent: Some(from),
                children: Vec::new(),
                prior: if total > 0.0 { mass / total } else { 1.0 },
                visits: 0.0,
                value: reward,
            });
            let new = self.branches.len() - 1;
            self.branches[from].children.push(new);
        }
        Ok(highest)
    }

    fn back_up(&mut self, from: usize, found: f64) {
        let mut up = Some(from);
        while let Some(at) = up {
            let branch = &mut self.branches[at];
            branch.visits += 1.0;
            branch.value = match (self.options.backup, branch.visits > 1.0) {
                (_, false) => found,
                (Backup::Max, true) => branch.value.max(found),
                (Backup::Mean, true) => branch.value + (found - branch.value) / branch.visits,
            };
            up = branch.parent;
        }
    }
}

impl Stepper for Tokens {
    fn steps(&self) -> usize {
        self.options.iterations
    }

    fn step(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        cx.problem.check_deadline()?;
        if self.done == 0 {
            tell_start(cx, &self.at)?;
        }
        let before = self.branches.len();
        let from = self.descend();
        let found = match self.branches[from].node.seq.n_masked() {
            0 => self.branches[from].value,
            _ => self.expand(cx, from)?,
        };
        self.back_up(from, found);
        self.done += 1;
        if cx.wants_steps() {
            let added = self.branches.len() - before;
            cx.tell(&Event::Step(StepEvent {
                step: self.done - 1,
                steps: self.options.iterations,
                masks_left: self.branches[from].node.seq.n_masked().saturating_sub(1),
                population: self.branches.len(),
                children: added,
                distinct: added,
                best_value: Some(found),
                best_reward: cx.problem.best_reward(),
                ess: None,
                resampled: false,
                cost: cx.problem.cost(),
            }))?;
        }
        Ok(self.done == self.options.iterations)
    }

    fn nodes(&self) -> &[Node] {
        &self.at
    }

    fn conclude(&mut self, _: &mut Context<'_, '_>) -> Flow<Concluded> {
        let best = self.best.clone().ok_or_else(|| missing("tree", "an expanded state"))?;
        Ok(Concluded {
            tokens: best.tokens.clone(),
            reward: Some(best.reward),
            log_p: None,
            stopped: None,
            finals: vec![best],
        })
    }
}
