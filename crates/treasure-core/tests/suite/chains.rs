//! Methods that keep a child a chain or the best of sampled ones: SVDD with a soft choice, DSearch, TreeG.

use std::{collections::BTreeMap, ops::ControlFlow};

use treasure_core::{
    Event, Key, MaskedSeq, Sampler,
    methods::{Dsearch, Fall, Search, Svdd, Treeg, WideWhen},
};
use treasure_testkit::{JointTable, TableReward, exact};

use crate::common::{placed, problem, run};

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 4, Key::new(1)), TableReward::random(3, 4, Key::new(2)))
}

const HITTING: Sampler = Sampler::FirstHitting;

#[test]
fn a_soft_choice_draws_candidates_by_their_values() {
    let (table, reward) = parts();
    let alpha = 0.3;
    let method = Svdd { particles: 3, chains: 2, sampler: HITTING, alpha };
    // Sums of (best was kept − its probability) and of the variance of that.
    let (mut gap, mut variance, mut not_best) = (0.0, 0.0, 0);
    for seed in 0..400 {
        let mut families: BTreeMap<(usize, usize), Vec<(f64, bool)>> = BTreeMap::new();
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event
                && let (Some(step), Some(slot)) = (node.step, node.parent_slot)
            {
                families.entry((step, slot)).or_default().push((node.value.unwrap(), node.kept));
            }
            ControlFlow::Continue(())
        };
        method.run(&problem(4, &table, &reward), Key::new(seed), &mut observer).unwrap();
        for family in families.values() {
            assert_eq!(family.iter().filter(|child| child.1).count(), 1);
            let soft = |value: f64| (value / alpha).exp();
            let total: f64 = family.iter().map(|child| soft(child.0)).sum();
            let best = family.iter().map(|child| child.0).fold(f64::MIN, f64::max);
            let p: f64 = family.iter().filter(|c| c.0 == best).map(|c| soft(c.0) / total).sum();
            let kept = family.iter().any(|child| child.1 && child.0 == best);
            gap += f64::from(u8::from(kept)) - p;
            variance += p * (1.0 - p);
            not_best += u32::from(!kept);
        }
    }
    assert!(gap.abs() < 4.5 * variance.sqrt(), "{gap} ± {}", variance.sqrt());
    assert!(not_best > 200, "{not_best}");
}

#[test]
fn with_many_candidates_a_soft_choice_of_one_token_is_the_target() {
    let table = JointTable::random(4, 1, Key::new(5));
    let reward = TableReward::random(4, 1, Key::new(6));
    let alpha = 0.4;
    let logprobs: Vec<f64> = table.probs().iter().map(|p| p.ln()).collect();
    let truth = exact::target(1.0 / alpha, &logprobs, reward.values());
    let method = Svdd { particles: 200, chains: 1, sampler: HITTING, alpha };
    let mut counts = [0u64; 4];
    for seed in 0..3000 {
        counts[run(&method, &problem(1, &table, &reward), seed).tokens[0] as usize] += 1;
    }
    let share: Vec<f64> = counts.iter().map(|&count| count as f64 / 3000.0).collect();
    let distance = exact::total_variation(&share, &truth.probs);
    assert!(distance < 0.03, "{distance}");
    assert!(exact::total_variation(table.probs(), &truth.probs) > 0.1);
}

#[test]
fn a_choice_that_hardens_is_the_best() {
    let (table, reward) = parts();
    for (alpha, seed) in [(1e-9, 1), (1e-9, 2), (0.0, 3)] {
        let method = Svdd { particles: 4, chains: 2, sampler: HITTING, alpha };
        let mut families: BTreeMap<(usize, usize), Vec<(f64, bool)>> = BTreeMap::new();
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event
                && let (Some(step), Some(slot)) = (node.step, node.parent_slot)
            {
                families.entry((step, slot)).or_default().push((node.value.unwrap(), node.kept));
            }
            ControlFlow::Continue(())
        };
        method.run(&problem(4, &table, &reward), Key::new(seed), &mut observer).unwrap();
        for family in families.values() {
            let best = family.iter().map(|child| child.0).fold(f64::MIN, f64::max);
            assert!(family.iter().all(|child| !child.1 || child.0 == best));
        }
    }
    let wrong = Svdd { alpha: -1.0, ..Svdd::default() };
    assert!(wrong.check().unwrap_err().to_string().starts_with("alpha: "));
}

#[test]
fn dsearch_with_a_constant_number_of_chains_is_svdd() {
    let (table, reward) = parts();
    for sampler in [HITTING, Sampler::Ancestral { steps: 6 }] {
        for seed in 0..20 {
            let plain = Svdd { particles: 3, chains: 2, sampler, alpha: 0.0 };
            let same = Dsearch {
                particles: 3,
                chains: 2,
                expand: 1,
                wide_when: WideWhen::Never,
                sampler,
                ..Dsearch::default()
            };
            let (a, b) = (
                run(&plain, &problem(4, &table, &reward), seed),
                run(&same, &problem(4, &table, &reward), seed),
            );
            assert_eq!((a.tokens, a.cost, a.finals), (b.tokens, b.cost, b.finals));
        }
    }
}

/// (children, chains kept) of every step, and whether the kept chains were the best.
fn dsearch_steps(method: &Dsearch, seed: u64) -> Vec<(usize, usize)> {
    let (table, reward) = parts();
    let mut steps = Vec::new();
    let mut children: Vec<(usize, f64, bool)> = Vec::new();
    let mut observer = |event: &Event| {
        match event {
            Event::Node(node) => {
                if let Some(slot) = node.parent_slot {
                    children.push((slot, node.value.unwrap(), node.kept));
                }
            }
            Event::Step(step) => {
                let mut best: BTreeMap<usize, f64> = BTreeMap::new();
                for &(slot, value, _) in &children {
                    let entry = best.entry(slot).or_insert(value);
                    *entry = entry.max(value);
                }
                let mut order: Vec<f64> = best.into_values().collect();
                order.sort_by(|a, b| b.total_cmp(a));
                let mut kept: Vec<f64> =
                    children.iter().filter(|child| child.2).map(|child| child.1).collect();
                kept.sort_by(|a, b| b.total_cmp(a));
                if method.replace == 0.0 {
                    assert_eq!(kept, order[..step.population], "the best chains live on");
                }
                steps.push((children.len(), step.population));
                children.clear();
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    method.run(&problem(4, &table, &reward), Key::new(seed), &mut observer).unwrap();
    steps
}

#[test]
fn the_chains_of_dsearch_fall_and_wide_steps_spend_what_they_free() {
    let method = Dsearch { particles: 2, chains: 1, expand: 8, ..Dsearch::default() };
    // 8 · 8^{−i/3}: 8, 4, 2, 1 after the steps, 16 candidates at each of them.
    assert_eq!(dsearch_steps(&method, 1), [(16, 8), (16, 4), (16, 2), (16, 1)]);
    let linear = Dsearch { fall: Fall::Linear, wide: 0.5, ..method.clone() };
    // 8 → 1 by 7/3 a step; half as many candidates, never fewer than one a chain.
    assert_eq!(dsearch_steps(&linear, 1), [(8, 8), (8, 5), (5, 3), (6, 1)]);
    let never = Dsearch { wide_when: WideWhen::Never, ..method.clone() };
    assert_eq!(dsearch_steps(&never, 1), [(16, 8), (16, 4), (8, 2), (4, 1)]);
    assert_eq!(method.nominal_cost(4).reward_calls, 4 * 16);
    assert_eq!(never.nominal_cost(4).reward_calls, 16 + 16 + 8 + 4);
    // By chance: at the first step never, later more and more often.
    let sometimes = Dsearch { wide_when: WideWhen::Exponential, ..method };
    let wide: Vec<usize> = (0..4)
        .map(|step| {
            let plain = [16, 16, 8, 4][step];
            (0..200).filter(|&seed| dsearch_steps(&sometimes, seed)[step].0 > plain).count()
        })
        .collect();
    let expected = (1.0 - (-1.5f64).exp()) * 200.0;
    assert_eq!(&wide[..2], [0, 0], "a wide step with all chains is no wider");
    assert!((wide[2] as f64 - expected).abs() < 28.0, "{wide:?}");
    assert!(wide[3] > wide[2]);
}

#[test]
fn dsearch_replaces_its_worst_chains_by_copies_of_the_others() {
    let method =
        Dsearch { particles: 2, chains: 6, expand: 1, replace: 0.34, ..Dsearch::default() };
    let (table, reward) = parts();
    let mut copied = 0;
    for seed in 0..20 {
        let mut children: Vec<(f64, Vec<usize>)> = Vec::new();
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) if node.step.is_some() => {
                    children.push((node.value.unwrap(), node.slots.clone()));
                }
                Event::Step(step) if step.step < 3 => {
                    let slots: usize = children.iter().map(|child| child.1.len()).sum();
                    assert_eq!(slots, 6, "as many chains as before");
                    let mut best: Vec<f64> =
                        children.chunks(2).map(|pair| pair[0].0.max(pair[1].0)).collect();
                    best.sort_by(f64::total_cmp);
                    let worst = best[1];
                    for (value, slots) in &children {
                        copied += slots.len().saturating_sub(1);
                        assert!(slots.is_empty() || *value > worst || best[1] == best[2]);
                    }
                    children.clear();
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        method.run(&problem(4, &table, &reward), Key::new(seed), &mut observer).unwrap();
    }
    assert_eq!(copied, 20 * 3 * 2, "two of six at each of three steps");
}

#[test]
fn treeg_scores_completions_that_agree_with_what_it_commits() {
    let (table, reward) = parts();
    for sampler in [HITTING, Sampler::Ancestral { steps: 3 }] {
        let method = Treeg { tree_width: 3.into(), x0_samples: 5, sampler };
        let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
        let mut checked = 0;
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event {
                let parent = node.parent.map_or(MaskedSeq::empty(4), |id| states[&id].clone());
                let state = placed(&parent, node);
                if let Some(value) = node.value {
                    // Rewards are all different, so the value names its completion.
                    let at = reward.values().iter().position(|r| *r == value).unwrap();
                    let scored = exact::sequence(3, 4, at);
                    let mut agrees = state.slots().zip(&scored);
                    assert!(agrees.all(|(slot, token)| slot.is_none_or(|t| t == *token)));
                    checked += 1;
                }
                states.insert(node.id, state);
            }
            ControlFlow::Continue(())
        };
        let found = method.run(&problem(4, &table, &reward), Key::new(2), &mut observer).unwrap();
        assert!(checked > 15);
        assert_eq!(found.reward, Some(reward.of(&found.tokens)));
    }
}

#[test]
fn treeg_keeps_the_best_and_finds_the_global_maximum_if_it_looks_everywhere() {
    let (table, reward) = parts();
    let best = reward.values().iter().copied().fold(f64::MIN, f64::max);
    let method = Treeg { tree_width: 81.into(), x0_samples: 600, sampler: HITTING };
    assert_eq!(run(&method, &problem(4, &table, &reward), 1).reward, Some(best));
    // One step of many tokens: the best of K completions of the first prediction.
    let one =
        Treeg { tree_width: 1.into(), x0_samples: 20, sampler: Sampler::Ancestral { steps: 1 } };
    let mut values = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            values.extend(node.value);
        }
        ControlFlow::Continue(())
    };
    let found = one.run(&problem(4, &table, &reward), Key::new(1), &mut observer).unwrap();
    assert_eq!(found.reward, values.iter().copied().reduce(f64::max));
    assert_eq!((found.cost.nfe, values.len()), (1, 20));
}

#[test]
fn treeg_costs_a_pass_a_text_and_step_and_its_completions() {
    let (table, reward) = parts();
    let method = Treeg { tree_width: 2.into(), x0_samples: 6, sampler: HITTING };
    let found = run(&method, &problem(4, &table, &reward), 1);
    let nominal = method.nominal_cost(4);
    assert_eq!(found.cost.reward_requests(), nominal.reward_calls);
    assert_eq!(found.cost.nfe_requests(), nominal.nfe);
    assert_eq!((nominal.nfe, nominal.reward_calls), (7, 42));
    let refused = Treeg { sampler: Sampler::Greedy, ..method }.check().unwrap_err();
    assert_eq!(refused.to_string(), "sampler: expected ancestral or first-hitting, got greedy");
}

#[test]
fn treeg_reveals_in_every_order_with_equal_chance() {
    let table = JointTable::random(3, 3, Key::new(1));
    let reward = TableReward::random(3, 3, Key::new(2));
    let method = Treeg { tree_width: 1.into(), x0_samples: 2, sampler: HITTING };
    let mut orders: BTreeMap<Vec<usize>, u64> = BTreeMap::new();
    for seed in 0..3000 {
        let mut order = Vec::new();
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event
                && node.kept
            {
                order.extend(node.position);
            }
            ControlFlow::Continue(())
        };
        method.run(&problem(3, &table, &reward), Key::new(seed), &mut observer).unwrap();
        *orders.entry(order).or_default() += 1;
    }
    let counts: Vec<u64> = orders.into_values().collect();
    assert_eq!(counts.len(), 6, "{counts:?}");
    let z = exact::chi_square_z(&counts, &[1.0 / 6.0; 6]);
    assert!(z.abs() < 4.0, "{counts:?}: χ² is {z} standard deviations off");
}
