//! The tree of DTS and DTS*: select, expand, roll out, back up.
//!
//! Guarantees: children of a node are independent samples of the model given the node, whatever was found
//! before; a state that is sampled again, under a model that does not look at the time, counts twice
//! instead of standing twice, and the walk goes on from it; every rollout ends in an exact reward.

use std::sync::Arc;

use super::super::walk::{Told, best_of, missing, tell_change, walk};
use crate::{
    Context, Event, Flow, MaskedSeq, Particle, StepEvent,
    population::{Node, tell_start},
    propose::purpose,
    resample::{LogWeights, draw_one},
    run::{Concluded, Stepper},
};

/// How many children a node may have, and where the tree branches.
pub(super) struct Shape {
    pub iterations: usize,
    pub every: usize,
    pub widen: f64,
    pub power: f64,
}

/// How the tree is walked down and backed up.
pub(super) enum Rule {
    /// By exp(λ v̂), and soft means.
    Soft { lambda: f64 },
    /// By upper confidence bounds, and maxima.
    Best { explore: f64 },
}

/// A state of the tree.
struct Branch {
    node: Node,
    parent: Option<usize>,
    children: Vec<usize>,
    /// How often its parent's samples were this state.
    count: f64,
    /// How often children were sampled.
    samples: f64,
    visits: f64,
    value: f64,
}

impl Branch {
    fn new(node: Node, parent: Option<usize>, value: f64) -> Self {
        let (children, count, samples, visits) = (Vec::new(), 1.0, 0.0, 0.0);
        Self { node, parent, children, count, samples, visits, value }
    }
}

/// A tree on its way.
pub(super) struct Tree {
    shape: Shape,
    rule: Rule,
    branches: Vec<Branch>,
    done: usize,
    at: Vec<Node>,
}

/// A tree of one start state.
pub(super) fn grown(start: &Arc<MaskedSeq>, shape: Shape, rule: Rule) -> Tree {
    let node = Node::start(0, 0, start.clone());
    Tree {
        shape,
        rule,
        branches: vec![Branch::new(node.clone(), None, 0.0)],
        done: 0,
        at: vec![node],
    }
}

impl Tree {
    /// The child to follow.
    fn choice(&self, cx: &Context<'_, '_>, at: usize, depth: usize) -> Flow<usize> {
        let branch = &self.branches[at];
        let chosen = match self.rule {
            Rule::Soft { lambda } => {
                let weights = self.soft(at, lambda)?;
                draw_one(&weights, cx.key.fold(purpose::CHOICE).fold(depth as u64))
            }
            Rule::Best { explore } => {
                let bound = |&child: &usize| {
                    let Branch { visits, value, .. } = self.branches[child];
                    value + explore * (branch.visits.max(1.0).ln() / visits.max(1.0)).sqrt()
                };
                let bounds: Vec<f64> = branch.children.iter().map(bound).collect();
                let better =
                    |best: usize, i: usize| if bounds[i] > bounds[best] { i } else { best };
                (0..bounds.len()).reduce(better).unwrap_or(0)
            }
        };
        Ok(branch.children[chosen])
    }

    /// The children of a node by count · exp(λ v̂).
    fn soft(&self, at: usize, lambda: f64) -> Flow<LogWeights> {
        let log = |&child: &usize| {
            let Branch { count, value, .. } = self.branches[child];
            count.ln() + lambda * value
        };
        let logs: Vec<f64> = self.branches[at].children.iter().map(log).collect();
        Ok(LogWeights::new("values of children", &logs)?)
    }

    /// Whether fewer children of a node were sampled than its visits allow.
    fn may_branch(&self, at: usize) -> bool {
        let branch = &self.branches[at];
        let allowed = self.shape.widen * branch.visits.powf(self.shape.power);
        branch.children.is_empty() || branch.samples < allowed
    }

    /// Moves on by the events between two branchings.
    fn stride(&mut self, cx: &mut Context<'_, '_>) -> Flow<Node> {
        let masks = self.at[0].seq.n_masked().saturating_sub(self.shape.every);
        walk(cx, &mut self.at, masks)?;
        Ok(self.at[0].clone())
    }

    /// A sample of the model from a new state to its end, every g-th state of it, and its reward.
    fn roll_out(&mut self, cx: &mut Context<'_, '_>, from: Node) -> Flow<(Vec<Node>, f64)> {
        let mut path = vec![from];
        while self.at[0].seq.n_masked() > 0 {
            path.push(self.stride(cx)?);
        }
        let text = self.at[0].seq.complete_with([]);
        let reward = cx.problem.score(&[text])?.pop();
        Ok((path, reward.ok_or_else(|| missing("tree", "a scored text"))?))
    }

    /// What a node is worth by its children.
    fn backed_up(&self, at: usize) -> Flow<f64> {
        let branch = &self.branches[at];
        let values = branch.children.iter().map(|&child| self.branches[child].value);
        Ok(match self.rule {
            // (1/λ) log of the mean of exp(λ v̂), over samples.
            Rule::Soft { lambda } => {
                (self.soft(at, lambda)?.log_sum() - branch.samples.ln()) / lambda
            }
            Rule::Best { .. } => values.fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// One iteration; how many states it added.
    fn grow(&mut self, cx: &mut Context<'_, '_>) -> Flow<usize> {
        let (mut at, mut depth, mut added) = (0, 0, 0);
        while self.branches[at].node.seq.n_masked() > 0 {
            depth += 1;
            if !self.may_branch(at) {
                at = self.choice(cx, at, depth)?;
                continue;
            }
            self.at = vec![self.branches[at].node.clone()];
            let state = self.stride(cx)?;
            let same = |&&child: &&usize| {
                cx.problem.time_agnostic() && self.branches[child].node.seq == state.seq
            };
            let known = self.branches[at].children.iter().find(same).copied();
            self.branches[at].samples += 1.0;
            if let Some(child) = known {
                self.branches[child].count += 1.0;
                at = child;
                continue;
            }
            let (path, reward) = self.roll_out(cx, state)?;
            added = path.len();
            at = self.add(cx, at, path, reward)?;
        }
        let mut up = Some(at);
        while let Some(at) = up {
            self.branches[at].visits += 1.0;
            if !self.branches[at].children.is_empty() {
                self.branches[at].value = self.backed_up(at)?;
            }
            up = self.branches[at].parent;
        }
        Ok(added)
    }

    /// Adds the states of a rollout below a branch; the last of them.
    fn add(
        &mut self,
        cx: &mut Context<'_, '_>,
        below: usize,
        path: Vec<Node>,
        reward: f64,
    ) -> Flow<usize> {
        let mut last = below;
        for mut node in path {
            let rank = self.branches[last].children.len();
            let told = Told { step: self.done, rank, value: Some(reward), reason: None };
            tell_change(cx, &self.branches[last].node, &mut node, told)?;
            let new = self.branches.len();
            self.branches.push(Branch::new(node, Some(last), reward));
            self.branches[last].children.push(new);
            if last != below {
                self.branches[last].samples = 1.0;
            }
            last = new;
        }
        Ok(last)
    }

    /// Every text of the tree with the log-chance that a walk down by value ends in it.
    fn finals(&self) -> Flow<Vec<Particle>> {
        let mut chances = vec![0.0; self.branches.len()];
        let mut finals = Vec::new();
        // Parents stand before their children.
        for (at, branch) in self.branches.iter().enumerate() {
            if let Some(tokens) = branch.node.seq.complete() {
                finals.push(Particle {
                    tokens: tokens.to_vec(),
                    value: branch.value,
                    reward: branch.value,
                    log_p: branch.node.log_p,
                    log_weight: chances[at],
                });
            } else if let Rule::Soft { lambda } = self.rule
                && !branch.children.is_empty()
            {
                let weights = self.soft(at, lambda)?;
                for (&child, weight) in branch.children.iter().zip(weights.normalised()) {
                    chances[child] = chances[at] + weight.ln();
                }
            }
        }
        Ok(finals)
    }
}

impl Stepper for Tree {
    fn steps(&self) -> usize {
        self.shape.iterations
    }

    fn step(&mut self, cx: &mut Context<'_, '_>) -> Flow<bool> {
        cx.problem.check_deadline()?;
        if self.done == 0 {
            tell_start(cx, &self.at)?;
        }
        let sample = cx.key;
        cx.key = sample.fold(purpose::ITERATION).fold(self.done as u64);
        let grown = self.grow(cx);
        cx.key = sample;
        let added = grown?;
        let root = self.branches[0].value;
        if let Rule::Soft { lambda } = self.rule {
            // (1/λ) log E exp(λ r) is what the root converges to.
            cx.log_normalizer = Some(lambda * root);
        }
        self.done += 1;
        if cx.wants_steps() {
            cx.tell(&Event::Step(StepEvent {
                step: self.done - 1,
                steps: self.shape.iterations,
                masks_left: 0,
                population: self.branches.len(),
                children: added,
                distinct: added,
                best_value: Some(root),
                best_reward: cx.problem.best_reward(),
                ess: None,
                resampled: false,
                cost: cx.problem.cost(),
            }))?;
        }
        Ok(self.done == self.shape.iterations)
    }

    fn nodes(&self) -> &[Node] {
        &self.at
    }

    fn conclude(&mut self, _: &mut Context<'_, '_>) -> Flow<Concluded> {
        best_of(self.finals()?, "tree")
    }
}
