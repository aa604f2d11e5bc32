//! Trees of rollouts: soft values, the law of a walk, upper confidence bounds and PUCT.

use std::{collections::BTreeMap, ops::ControlFlow};

use treasure_core::{
    AnswerKind, Event, Key, MaskedSeq, NodeEvent, Silent,
    methods::{Backup, Dts, DtsStar, Policy, Search},
    resample::LogWeights,
};
use treasure_testkit::{JointTable, TableReward, exact};

use crate::common::{placed, problem, run, target_of};

const LAMBDA: f64 = 2.0;

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 3, Key::new(1)), TableReward::random(3, 3, Key::new(2)))
}

fn dts(iterations: usize) -> Dts {
    Dts { iterations, lambda: LAMBDA, branch_every: 1, widen: 2.0, widen_power: 0.7 }
}

/// The value of the root against the soft value, over several runs: mean deviation and its error.
fn root(iterations: usize, runs: u64, branch_every: usize) -> (f64, f64) {
    let (table, reward) = parts();
    let logprobs: Vec<f64> = table.probs().iter().map(|p| p.ln()).collect();
    let truth = exact::soft_value(LAMBDA, &logprobs, reward.values());
    let problem = problem(3, &table, &reward);
    let off: Vec<f64> = (0..runs)
        .map(|seed| {
            let method = Dts { branch_every, ..dts(iterations) };
            let found = method.run(&problem, Key::new(5).fold(seed), &mut Silent).unwrap();
            found.log_normalizer.unwrap() / LAMBDA - truth
        })
        .collect();
    let mean = off.iter().sum::<f64>() / runs as f64;
    let spread = off.iter().map(|x| x.powi(2)).sum::<f64>() / runs as f64;
    (mean, spread.sqrt())
}

#[test]
fn the_value_of_the_root_converges_to_the_soft_value() {
    for branch_every in [1, 2] {
        let (_, few) = root(8, 100, branch_every);
        let (mean, many) = root(2500, 10, branch_every);
        // Root mean squares: 8 rollouts are off by about 0.08, 2,500 by 0.005.
        assert!(many < 0.012 && many < 0.25 * few, "g = {branch_every}: {few} → {many}");
        assert!(mean.abs() < 0.008, "g = {branch_every}: {mean}");
    }
}

#[test]
fn a_walk_down_by_value_converges_to_the_target() {
    let (table, reward) = parts();
    let target = target_of(&table, &reward, LAMBDA);
    let distance = |iterations: usize, runs: u64| {
        let mut share = vec![0.0; 27];
        for seed in 0..runs {
            let found = run(&dts(iterations), &problem(3, &table, &reward), seed);
            let logs: Vec<f64> = found.finals.iter().map(|end| end.log_weight).collect();
            let weights = LogWeights::new("ends", &logs).unwrap();
            assert!(weights.log_sum().abs() < 1e-9, "the chances of all ends sum to one");
            for (end, weight) in found.finals.iter().zip(weights.normalised()) {
                share[exact::index(3, &end.tokens)] += weight / runs as f64;
            }
        }
        exact::total_variation(&share, &target.probs)
    };
    let (few, many) = (distance(2, 40), distance(2500, 8));
    assert!(many < 0.04 && many < few, "{few} → {many}");
    assert!(exact::total_variation(table.probs(), &target.probs) > 0.06);
    // A drawn answer is such a walk.
    let draws = 1500;
    let mut share = vec![0.0; 27];
    for seed in 0..draws {
        let problem = problem(3, &table, &reward).with_answer(AnswerKind::Draw);
        let found = run(&dts(60), &problem, seed);
        share[exact::index(3, &found.tokens)] += 1.0 / draws as f64;
    }
    let distance = exact::total_variation(&share, &target.probs);
    // 1,500 draws scatter by about 0.05.
    assert!(distance < 0.09, "{distance}");
}

#[test]
fn values_are_backed_up_and_children_are_as_many_as_visits_allow() {
    let table = JointTable::random(3, 5, Key::new(3));
    let reward = TableReward::random(3, 5, Key::new(4));
    let (widen, power) = (1.5, 0.5);
    let soft: &dyn Search =
        &Dts { iterations: 60, lambda: 3.0, branch_every: 2, widen, widen_power: power };
    let best: &dyn Search = &DtsStar {
        iterations: 60,
        branch_every: 2,
        widen,
        widen_power: power,
        ..DtsStar::default()
    };
    // A model that looks at the time: equal states are different nodes, so the trace tells all.
    let table = table.timed();
    for method in [soft, best] {
        // The tree by its own account: children of each node, and the reward of each end.
        let mut children: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
        let mut ends: BTreeMap<u64, f64> = BTreeMap::new();
        let mut roots = Vec::new();
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) => {
                    let parent = node.parent.map_or(MaskedSeq::empty(5), |id| states[&id].clone());
                    let state = placed(&parent, node);
                    if let Some(parent) = node.parent {
                        children.entry(parent).or_default().push(node.id);
                    }
                    if let Some(tokens) = state.complete() {
                        assert_eq!(node.value, Some(reward.of(tokens)));
                        ends.insert(node.id, reward.of(tokens));
                    } else {
                        assert!(
                            [5, 3, 1].contains(&state.n_masked()),
                            "it branches every g events"
                        );
                    }
                    states.insert(node.id, state);
                }
                Event::Step(step) => {
                    let all = (&children, &ends);
                    let expected = backed_up(0, all, method.name() == "dts", 3.0);
                    assert!((step.best_value.unwrap() - expected).abs() < 1e-9);
                    let root = children[&0].len() as f64;
                    let visits = (step.step + 1) as f64;
                    assert!(root <= (widen * visits.powf(power)).ceil().max(1.0), "{root}");
                    roots.push(root);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        let found = method.run(&problem(5, &table, &reward), Key::new(7), &mut observer).unwrap();
        assert_eq!(found.reward, ends.values().copied().reduce(f64::max));
        assert_eq!(found.finals.len(), ends.len());
        assert!(roots[59] >= 10.0, "{roots:?}");
        assert!(children.iter().any(|(&node, own)| node > 0 && own.len() > 1));
        // Prefixes are in memory: a rollout asks from the node it expands.
        assert!(found.cost.nfe_requests() < 60 * 5);
    }
}

/// A node's value from the ends below it.
fn backed_up(
    at: u64,
    all: (&BTreeMap<u64, Vec<u64>>, &BTreeMap<u64, f64>),
    soft: bool,
    lambda: f64,
) -> f64 {
    let Some(children) = all.0.get(&at) else { return all.1[&at] };
    let values = children.iter().map(|&child| backed_up(child, all, soft, lambda));
    match soft {
        true => {
            let n = children.len() as f64;
            (values.map(|value| (lambda * value).exp()).sum::<f64>() / n).ln() / lambda
        }
        false => values.fold(f64::MIN, f64::max),
    }
}

/// What a test knows of a node of a tree.
struct Known {
    masks: usize,
    parent: Option<usize>,
    children: Vec<usize>,
    visits: f64,
    value: f64,
}

/// A tree as its events tell it.
#[derive(Default)]
struct Told {
    all: Vec<Known>,
    /// Nodes of the step that is not told yet.
    fresh: Vec<usize>,
}

impl Told {
    fn hear(&mut self, node: &NodeEvent) {
        let parent = node.parent.map(|id| id as usize);
        if parent.is_some() {
            self.fresh.push(self.all.len());
        }
        let (masks, value) = (node.masks_left, node.value.unwrap_or(0.0));
        self.all.push(Known { masks, parent, children: Vec::new(), visits: 0.0, value });
    }

    /// Hangs the new nodes in, and carries a visit of the last of them, or of `at`, up to the root; `value` is
    /// that of a node with these children.
    fn back_up(&mut self, mut at: usize, value: impl Fn(&[f64]) -> f64) {
        for new in std::mem::take(&mut self.fresh) {
            let parent = self.all[new].parent.unwrap();
            self.all[parent].children.push(new);
            at = new;
        }
        let mut up = Some(at);
        while let Some(i) = up {
            self.all[i].visits += 1.0;
            let below: Vec<f64> =
                self.all[i].children.iter().map(|&child| self.all[child].value).collect();
            if !below.is_empty() {
                self.all[i].value = value(&below);
            }
            up = self.all[i].parent;
        }
    }
}

#[test]
fn upper_confidence_bounds_and_widening_decide_where_a_tree_grows() {
    // √visits is a whole number now and then: as many children as allowed are enough.
    for (widen, power, below) in [(1.5, 0.6, 30), (1.0, 0.5, 15)] {
        grows_where_the_rule_says(widen, power, below);
    }
}

/// Follows a tree of 80 iterations by its rule; at least `below` of them expand below the root.
fn grows_where_the_rule_says(widen: f64, power: f64, below: usize) {
    // A model that looks at the time: no state is met twice, so the trace tells all.
    let table = JointTable::random(3, 5, Key::new(3)).timed();
    let reward = TableReward::random(3, 5, Key::new(4));
    let explore = 0.7;
    let method = DtsStar {
        iterations: 80,
        explore,
        branch_every: 2,
        widen,
        widen_power: power,
        ..DtsStar::default()
    };
    let mut told = Told::default();
    let (mut deep, mut ended) = (0, 0);
    let mut observer = |event: &Event| {
        match event {
            Event::Node(node) => told.hear(node),
            Event::Step(_) => {
                let Told { all, fresh } = &told;
                let mut at = 0;
                while all[at].masks > 0 {
                    let Known { children, visits, .. } = &all[at];
                    if children.is_empty() || (children.len() as f64) < widen * visits.powf(power) {
                        break;
                    }
                    let bound = |&child: &usize| {
                        all[child].value + explore * (visits.ln() / all[child].visits).sqrt()
                    };
                    let best = |a: usize, b: usize| if bound(&b) > bound(&a) { b } else { a };
                    at = children.iter().copied().reduce(best).unwrap();
                }
                assert_eq!(fresh.is_empty(), all[at].masks == 0);
                if let Some(&first) = fresh.first() {
                    assert_eq!(all[first].parent, Some(at), "where the rule says");
                    deep += usize::from(at > 0);
                }
                ended += usize::from(fresh.is_empty());
                told.back_up(at, |below| below.iter().copied().fold(f64::MIN, f64::max));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    method.run(&problem(5, &table, &reward), Key::new(7), &mut observer).unwrap();
    assert!(deep > below, "{deep} expansions below the root, {ended} walks to an end");
}

#[test]
fn a_tree_is_walked_down_by_the_values_of_its_children() {
    // Every choice of a child against exp(λ v̂): how often the first, the best and the most visited were
    // taken, less how often they should have been, with the variance of that.
    let (lambda, widen, power) = (4.0, 1.9, 0.5);
    let method = Dts { iterations: 60, lambda, branch_every: 1, widen, widen_power: power };
    let mut gaps =
        [("the first", 0.0, 0.0), ("the best", 0.0, 0.0), ("the most visited", 0.0, 0.0)];
    let (mut choices, mut ended) = (0, 0);
    for seed in 0..30 {
        // No state is met twice under a model that looks at the time.
        let table = JointTable::random(3, 7, Key::new(seed).fold(1)).timed();
        let reward = TableReward::random(3, 7, Key::new(seed).fold(2));
        let mut told = Told::default();
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) => told.hear(node),
                Event::Step(_) => {
                    let Told { all, fresh } = &told;
                    // Where it expanded tells every choice on the way there.
                    let Some(&first) = fresh.first() else {
                        ended += 1;
                        return ControlFlow::Break(());
                    };
                    let mut taken = all[first].parent.unwrap();
                    while let Some(parent) = all[taken].parent {
                        let own = &all[parent].children;
                        if own.len() > 1 {
                            let soft = |child: usize| (lambda * all[child].value).exp();
                            let total: f64 = own.iter().map(|&child| soft(child)).sum();
                            let best = own.iter().max_by(|a, b| soft(**a).total_cmp(&soft(**b)));
                            let often = (own.iter())
                                .max_by(|a, b| all[**a].visits.total_cmp(&all[**b].visits));
                            let named = [own[0], *best.unwrap(), *often.unwrap()];
                            for ((_, gap, variance), child) in gaps.iter_mut().zip(named) {
                                let p = soft(child) / total;
                                *gap += f64::from(u8::from(taken == child)) - p;
                                *variance += p * (1.0 - p);
                            }
                            choices += 1;
                        }
                        taken = parent;
                    }
                    told.back_up(taken, |below| {
                        let soft = below.iter().map(|value| (lambda * value).exp());
                        (soft.sum::<f64>() / below.len() as f64).ln() / lambda
                    });
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        method.run(&problem(7, &table, &reward), Key::new(seed), &mut observer).unwrap();
    }
    assert_eq!(ended, 0, "a walk to an end would not be told");
    assert!(choices > 1000, "{choices}");
    for (which, gap, variance) in gaps {
        let error: f64 = variance.sqrt();
        assert!(gap.abs() < 4.5 * error, "{which} of {choices}: {gap} ± {error}");
    }
}

#[test]
fn upper_confidence_bounds_find_the_best_sooner_than_sampling() {
    let (mut tree, mut plain) = (0.0, 0.0);
    for seed in 0..40 {
        let table = JointTable::random(3, 6, Key::new(seed).fold(1));
        // A reward that rises with every right token, so that a good beginning is worth following.
        let reward = treasure_testkit::FnReward::new("ones", |x| {
            x.iter().filter(|token| **token == 1).count() as f64 / 6.0
        });
        let star = DtsStar { iterations: 40, branch_every: 2, explore: 0.3, ..DtsStar::default() };
        let found = run(&star, &problem(6, &table, &reward), seed);
        tree += found.reward.unwrap() / 40.0;
        let bon = treasure_core::methods::BestOfN {
            particles: found.cost.nfe_requests() as usize / 6,
            sampler: treasure_core::Sampler::FirstHitting,
        };
        plain += run(&bon, &problem(6, &table, &reward), seed).reward.unwrap() / 40.0;
    }
    assert!(tree > plain + 0.02, "{tree} against {plain} at equal passes");
}

#[test]
fn puct_finds_the_global_maximum_if_it_looks_everywhere() {
    let (table, reward) = parts();
    for backup in [Backup::Max, Backup::Mean] {
        // 1 + 3 + 9 states can be expanded; the completions of all are all 27 sequences.
        let method = DtsStar {
            iterations: 2000,
            explore: 50.0,
            policy: Policy::Puct,
            beam_width: 3.into(),
            backup,
            ..DtsStar::default()
        };
        let best = reward.values().iter().copied().fold(f64::MIN, f64::max);
        let found = run(&method, &problem(3, &table, &reward), 1);
        assert_eq!(found.reward, Some(best), "{backup}");
        assert_eq!(found.cost.nfe_requests(), 13, "{backup}: every state once, ends cost nothing");
    }
}

#[test]
fn puct_walks_down_by_value_and_prior() {
    let table = JointTable::random(3, 4, Key::new(1));
    let reward = TableReward::random(3, 4, Key::new(2));
    for backup in [Backup::Max, Backup::Mean] {
        let explore = 0.7;
        let method = DtsStar {
            iterations: 30,
            explore,
            policy: Policy::Puct,
            beam_width: 3.into(),
            backup,
            ..DtsStar::default()
        };
        /// What the test knows of a node.
        struct Known {
            state: MaskedSeq,
            parent: Option<usize>,
            children: Vec<usize>,
            prior: f64,
            visits: f64,
            value: f64,
        }
        let mut all: Vec<Known> = Vec::new();
        let mut fresh: Vec<usize> = Vec::new();
        let (mut followed, mut range) = (0, (f64::MAX, f64::MIN));
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) => {
                    let parent = node.parent.map(|id| id as usize);
                    let before =
                        parent.map_or(MaskedSeq::empty(4), |parent| all[parent].state.clone());
                    let mut prior = 1.0;
                    if let (Some(position), Some(token)) = (node.position, node.token) {
                        let at = before.masked().position(|at| at == position).unwrap();
                        prior = table.conditionals(&before)[at][token as usize];
                        fresh.push(node.id as usize);
                    }
                    let value = node.value.unwrap_or(0.0);
                    let state = placed(&before, node);
                    let children = Vec::new();
                    all.push(Known { state, parent, children, prior, visits: 0.0, value });
                }
                Event::Step(_) => {
                    // Where the formula would have gone, from what was known before.
                    let (low, high) = range;
                    let mut at = 0;
                    while !all[at].children.is_empty() {
                        let bound = |child: &usize| {
                            let child = &all[*child];
                            let q =
                                if high > low { (child.value - low) / (high - low) } else { 0.5 };
                            q + explore * child.prior * all[at].visits.sqrt() / (1.0 + child.visits)
                        };
                        let own = &all[at].children;
                        let best = |a: usize, b: usize| if bound(&b) > bound(&a) { b } else { a };
                        at = own.iter().copied().reduce(best).unwrap();
                    }
                    let found = match fresh.is_empty() {
                        true => all[at].value,
                        false => fresh.iter().map(|&i| all[i].value).fold(f64::MIN, f64::max),
                    };
                    if let Some(&first) = fresh.first() {
                        assert_eq!(all[first].parent, Some(at), "{backup}");
                        followed += 1;
                    }
                    for &i in &fresh {
                        range = (range.0.min(all[i].value), range.1.max(all[i].value));
                    }
                    all[at].children = std::mem::take(&mut fresh);
                    let mut up = Some(at);
                    while let Some(i) = up {
                        all[i].visits += 1.0;
                        let visits = all[i].visits;
                        all[i].value = match backup {
                            _ if visits == 1.0 => found,
                            Backup::Max => all[i].value.max(found),
                            Backup::Mean => all[i].value + (found - all[i].value) / visits,
                        };
                        up = all[i].parent;
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        let found = method.run(&problem(4, &table, &reward), Key::new(3), &mut observer).unwrap();
        assert!(followed >= 15, "{backup}: {followed}");
        assert_eq!(found.reward, Some(reward.of(&found.tokens)));
        assert_eq!(found.reward, found.best_seen.map(|best| best.reward));
    }
}
