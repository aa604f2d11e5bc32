//! Values against hand-enumerated ones.

use std::collections::BTreeMap;

use treasure_core::{
    Event, Key, MaskedSeq, PruneReason, Sampler, SelectKind, TokenId, ValueKind,
    methods::{BestOfN, Code, FkSteering, Search, Svdd, Treasure},
    value::{log_mean_exp, sample_completions},
};
use treasure_testkit::{JointTable, TableReward, exact};

use crate::common::{problem, run};

const VOCAB: usize = 3;
const LEN: usize = 3;

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(VOCAB, LEN, Key::new(1)), TableReward::random(VOCAB, LEN, Key::new(2)))
}

fn argmax(table: &JointTable, seq: &MaskedSeq) -> Vec<TokenId> {
    let best = |row: &Vec<f64>| {
        (0..VOCAB).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).unwrap() as TokenId
    };
    table.conditionals(seq).iter().map(best).collect()
}

/// Runs a tree and calls `check(parent, child, value)` for every node.
fn check_values(method: &Treasure, mut check: impl FnMut(&MaskedSeq, &MaskedSeq, f64)) {
    let (table, reward) = parts();
    let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
    let mut seen = 0;
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            let Some(parent) = node.parent else {
                states.insert(node.id, MaskedSeq::empty(LEN));
                return std::ops::ControlFlow::Continue(());
            };
            let parent = states[&parent].clone();
            let child = parent.reveal(node.position.unwrap(), node.token.unwrap());
            check(&parent, &child, node.value.expect("every child is valued"));
            assert_eq!(node.masks_left, child.n_masked());
            states.insert(node.id, child);
            seen += 1;
        }
        std::ops::ControlFlow::Continue(())
    };
    method.run(&problem(LEN, &table, &reward), Key::new(3), &mut observer).unwrap();
    assert!(seen >= 10, "{seen} nodes");
}

#[test]
fn resubstitution_fills_the_child_from_its_parents_prediction() {
    let (table, reward) = parts();
    check_values(&Treasure::new(3, 3), |parent, child, value| {
        let fill: Vec<TokenId> = (parent.masked().zip(argmax(&table, parent)))
            .filter(|(at, _)| child.get(*at).is_none())
            .map(|(_, token)| token)
            .collect();
        assert_eq!(value, reward.of(&child.complete_with(fill)));
    });
}

#[test]
fn previous_argmax_completes_the_parent_without_the_childs_token() {
    let (table, reward) = parts();
    let method = Treasure { value: ValueKind::PreviousArgmax, ..Treasure::new(3, 3) };
    check_values(&method, |parent, child, value| {
        let expected = match child.complete() {
            Some(tokens) => reward.of(tokens),
            None => reward.of(&parent.complete_with(argmax(&table, parent))),
        };
        assert_eq!(value, expected);
    });
}

#[test]
fn the_posterior_completes_the_child_from_its_own_prediction() {
    let (table, reward) = parts();
    let method = Treasure { value: ValueKind::Posterior, ..Treasure::new(3, 3) };
    check_values(&method, |_, child, value| {
        let fill = if child.n_masked() == 0 { Vec::new() } else { argmax(&table, child) };
        assert_eq!(value, reward.of(&child.complete_with(fill)));
    });
}

#[test]
fn previous_sampled_values_are_unbiased_for_the_parents_soft_mean() {
    // With many samples the log-mean-exp of sampled completions is the enumerated one.
    let (table, reward) = parts();
    let method = Treasure { value: ValueKind::Previous, x0_samples: 4000, ..Treasure::new(2, 2) };
    check_values(&method, |parent, child, value| {
        let expected = match child.complete() {
            Some(tokens) => reward.of(tokens),
            None => {
                let rows = table.conditionals(parent);
                exact::product_expectation(parent, &rows, |x| reward.of(x).exp()).ln()
            }
        };
        assert!((value - expected).abs() < 0.03, "{value}, not {expected}");
    });
}

#[test]
fn siblings_have_completions_of_their_own() {
    let table = JointTable::random(3, 4, Key::new(11));
    let reward = TableReward::random(3, 4, Key::new(12));
    let method = Treasure { value: ValueKind::Previous, x0_samples: 1, ..Treasure::new(3, 3) };
    let (mut equal, mut families) = (0, 0);
    for seed in 0..20 {
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event
                && let (Some(parent), true) = (node.parent, node.masks_left > 0)
            {
                values.entry(parent).or_default().push(node.value.unwrap());
            }
            std::ops::ControlFlow::Continue(())
        };
        method.run(&problem(4, &table, &reward), Key::new(seed), &mut observer).unwrap();
        families += values.len();
        equal += values.values().filter(|own| own.iter().all(|value| value == &own[0])).count();
    }
    assert!(equal * 5 < families, "{equal} of {families} families share one value");
}

#[test]
fn sampled_completions_follow_the_product_of_the_predictions() {
    let (table, reward) = parts();
    let problem = problem(LEN, &table, &reward);
    let seq = std::sync::Arc::new(MaskedSeq::from_slots([None, Some(1), None]));
    let Ok(encoded) = problem.encode(&[(seq.clone(), 0.5)]) else { panic!("encodes") };
    let draws = sample_completions(&problem, &encoded[0], Key::new(4), 9000).unwrap();
    let rows = table.conditionals(&seq);
    let mut counts = vec![0u64; VOCAB * VOCAB];
    for tokens in &draws {
        assert_eq!(tokens[1], 1);
        counts[tokens[0] as usize * VOCAB + tokens[2] as usize] += 1;
    }
    let probs: Vec<f64> = rows[0].iter().flat_map(|a| rows[1].iter().map(move |b| a * b)).collect();
    assert!(exact::chi_square_z(&counts, &probs).abs() < 4.0);
}

#[test]
fn log_mean_exp_is_a_soft_mean_that_does_not_overflow() {
    assert!((log_mean_exp(1.0, &[0.0, 2f64.ln()]) - 1.5f64.ln()).abs() < 1e-12);
    assert!((log_mean_exp(10.0, &[0.3, 0.3]) - 0.3).abs() < 1e-12);
    assert!(
        (log_mean_exp(1.0, &[-1e4, -1e4 + 1.0]) - (-1e4 + (1f64.exp() / 2.0 + 0.5).ln())).abs()
            < 1e-9
    );
    assert!((log_mean_exp(1.0, &[1e4, -1e4]) - (1e4 - 2f64.ln())).abs() < 1e-9);
}

#[test]
fn the_soft_value_and_the_target_equal_their_definitions() {
    let (table, reward) = parts();
    let lambda = 3.0;
    let logprobs: Vec<f64> = table.probs().iter().map(|p| p.ln()).collect();
    let z: f64 =
        table.probs().iter().zip(reward.values()).map(|(p, r)| p * (lambda * r).exp()).sum();
    let soft = exact::soft_value(lambda, &logprobs, reward.values());
    assert!((soft - z.ln() / lambda).abs() < 1e-12);
    let target = exact::target(lambda, &logprobs, reward.values());
    assert!((target.log_normalizer - z.ln()).abs() < 1e-12);
    for ((p, r), q) in table.probs().iter().zip(reward.values()).zip(&target.probs) {
        assert!((p * (lambda * r).exp() / z - q).abs() < 1e-12);
    }
    // λ → 0 gives the mean, λ → ∞ the maximum.
    let mean: f64 = table.probs().iter().zip(reward.values()).map(|(p, r)| p * r).sum();
    let best = reward.values().iter().copied().fold(f64::MIN, f64::max);
    assert!((exact::soft_value(1e-6, &logprobs, reward.values()) - mean).abs() < 1e-5);
    assert!((exact::soft_value(1e5, &logprobs, reward.values()) - best).abs() < 1e-3);
    // Conditional probabilities need not be normalised beforehand.
    let shifted: Vec<f64> = logprobs.iter().map(|logprob| logprob - 5.0).collect();
    assert!((exact::soft_value(lambda, &shifted, reward.values()) - soft).abs() < 1e-12);
}

#[test]
fn svdd_keeps_the_candidate_with_the_best_posterior_at_every_step() {
    let (table, reward) = parts();
    for sampler in [Sampler::Ancestral { steps: 4 }, Sampler::FirstHitting, Sampler::Greedy] {
        let method = Svdd { particles: 3, chains: 2, sampler, alpha: 0.0 };
        let mut by_parent: BTreeMap<(usize, usize), Vec<(f64, bool)>> = BTreeMap::new();
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event
                && let (Some(step), Some(slot)) = (node.step, node.parent_slot)
            {
                by_parent.entry((step, slot)).or_default().push((node.value.unwrap(), node.kept));
            }
            std::ops::ControlFlow::Continue(())
        };
        let outcome =
            method.run(&problem(LEN, &table, &reward), Key::new(5), &mut observer).unwrap();
        assert_eq!(outcome.finals.len(), 2);
        for children in by_parent.values() {
            let best = children.iter().map(|child| child.0).fold(f64::MIN, f64::max);
            let kept: Vec<_> = children.iter().filter(|child| child.1).collect();
            assert_eq!(kept.len(), 1);
            assert_eq!(kept[0].0, best);
        }
    }
}

#[test]
fn code_with_one_block_of_all_steps_is_best_of_n() {
    let (table, reward) = parts();
    for seed in 0..20 {
        for sampler in [Sampler::Ancestral { steps: 5 }, Sampler::FirstHitting] {
            let code_block = sampler.steps(LEN);
            let code = run(
                &Code { particles: 4, code_block, sampler },
                &problem(LEN, &table, &reward),
                seed,
            );
            let bon = run(&BestOfN { particles: 4, sampler }, &problem(LEN, &table, &reward), seed);
            assert_eq!((code.tokens, code.reward), (bon.tokens, bon.reward));
        }
    }
}

#[test]
fn code_gives_every_slot_to_the_best_copy_at_the_end_of_a_block() {
    let (table, reward) = parts();
    let method = Code { particles: 4, code_block: 2, sampler: Sampler::FirstHitting };
    let mut copies = BTreeMap::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event
            && node.kept
            && let Some(step) = node.step
        {
            copies.entry(step).or_insert_with(Vec::new).push(node.slots.len());
        }
        std::ops::ControlFlow::Continue(())
    };
    method.run(&problem(LEN, &table, &reward), Key::new(5), &mut observer).unwrap();
    assert_eq!(copies[&0], [1, 1, 1, 1]);
    assert_eq!(copies[&1], [4]);
    assert_eq!(copies[&2], [1, 1, 1, 1]);
}

#[test]
fn every_method_reports_the_reward_of_the_tokens_it_returns() {
    let (table, reward) = parts();
    let mut methods: Vec<Box<dyn Search>> = vec![
        Box::new(FkSteering { sampler: Sampler::FirstHitting, ..FkSteering::default() }),
        Box::new(treasure_core::methods::FkReference::default()),
        Box::new(treasure_core::methods::NaiveTree { steps: 8, ..Default::default() }),
        Box::new(Svdd { sampler: Sampler::Ancestral { steps: 6 }, ..Svdd::default() }),
        Box::new(Code { sampler: Sampler::Ancestral { steps: 6 }, code_block: 2, particles: 3 }),
    ];
    for &value in ValueKind::ALL {
        for &select in SelectKind::ALL {
            methods.push(Box::new(Treasure { value, select, ..Treasure::new(2, 2) }));
        }
    }
    for method in methods {
        let outcome = run(&*method, &problem(LEN, &table, &reward), 9);
        assert_eq!(outcome.reward, Some(reward.of(&outcome.tokens)), "{}", method.name());
        assert_eq!(outcome.stopped, None);
        let best = outcome.best_seen.unwrap();
        assert_eq!(best.reward, reward.of(&best.tokens));
        assert!(best.reward >= outcome.reward.unwrap());
    }
}

#[test]
fn of_equal_sequences_the_higher_value_stands_then_the_lower_parent_slot() {
    let (mut compared, mut outdone) = (0, 0);
    for seed in 0..40 {
        let table = JointTable::random(3, 4, Key::new(seed).fold(1));
        let reward = TableReward::random(3, 4, Key::new(seed).fold(2));
        for &select in SelectKind::ALL {
            let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
            let mut stands: BTreeMap<(usize, MaskedSeq), Vec<treasure_core::NodeEvent>> =
                BTreeMap::new();
            let mut observer = |event: &Event| {
                if let Event::Node(node) = event {
                    let state = match node.parent {
                        None => MaskedSeq::empty(4),
                        Some(parent) => {
                            states[&parent].reveal(node.position.unwrap(), node.token.unwrap())
                        }
                    };
                    if let Some(step) = node.step {
                        stands.entry((step, state.clone())).or_default().push(node.clone());
                    }
                    states.insert(node.id, state);
                }
                std::ops::ControlFlow::Continue(())
            };
            // Wide enough to keep everything, so that a child is pruned only as a duplicate.
            let method = Treasure { groups: 3, select, ..Treasure::new(3, 500) };
            let problem = problem(4, &table, &reward);
            method.run(&problem, Key::new(seed), &mut observer).unwrap();
            for equals in stands.values() {
                let kept: Vec<_> = equals.iter().filter(|node| node.kept).collect();
                assert_eq!(kept.len(), 1, "{select}");
                for other in equals.iter().filter(|node| !node.kept) {
                    assert_eq!(other.reason, Some(PruneReason::Duplicate), "{select}: {other:?}");
                    outdone += usize::from(other.value > kept[0].value);
                }
                if select == SelectKind::Nested {
                    continue; // a slot compares only what it sees
                }
                for other in equals.iter().filter(|node| !node.kept) {
                    let order = |node: &treasure_core::NodeEvent| {
                        (-node.value.unwrap(), node.parent_slot.unwrap())
                    };
                    assert!(order(kept[0]) < order(other), "{:?} against {other:?}", kept[0]);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 100, "{compared} duplicates");
    assert!(outdone > 100, "{outdone} came too late for a slot that had taken a lower value");
}
