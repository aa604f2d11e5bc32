//! Feynman–Kac steering against the enumerated target.

use std::collections::BTreeMap;

use treasure_core::{
    Event, Key, Potential, Resampling, Sampler, Silent,
    methods::{FkReference, FkSteering, Search},
    resample::{LogWeights, draw},
    target,
};
use treasure_testkit::{FnReward, JointTable, TableReward, exact};

use crate::common::{problem, run};

const LAMBDA: f64 = 2.0;

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 3, Key::new(1)), TableReward::random(3, 3, Key::new(2)))
}

fn fk(particles: usize, potential: Potential, resample: Resampling) -> FkSteering {
    FkSteering {
        particles,
        sampler: Sampler::FirstHitting,
        lambda: LAMBDA,
        potential,
        resample,
        x0_samples: 2,
        ..FkSteering::default()
    }
}

fn truth(table: &JointTable, reward: &TableReward) -> treasure_core::Target {
    let logprobs: Vec<f64> = table.probs().iter().map(|p| p.ln()).collect();
    target(LAMBDA, &logprobs, reward.values()).unwrap()
}

#[test]
fn the_normaliser_is_unbiased_for_every_potential_and_scheme() {
    let (table, reward) = parts();
    let expected = truth(&table, &reward).log_normalizer.exp();
    let problem = problem(3, &table, &reward);
    for &potential in Potential::ALL {
        for &resample in Resampling::ALL {
            for ess in [None, Some(0.5)] {
                let method = FkSteering { ess, ..fk(4, potential, resample) };
                let runs = 1200;
                let estimates: Vec<f64> = (0..runs)
                    .map(|i| {
                        let key = Key::new(3).fold(i);
                        let outcome = method.run(&problem, key, &mut Silent).unwrap();
                        outcome.log_normalizer.expect("FK estimates it").exp()
                    })
                    .collect();
                let mean = estimates.iter().sum::<f64>() / runs as f64;
                let spread = estimates.iter().map(|z| (z - mean).powi(2)).sum::<f64>();
                let error = spread.sqrt() / runs as f64;
                assert!(
                    (mean - expected).abs() < 4.5 * error,
                    "{potential}, {resample}, {ess:?}: {mean} ± {error}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn weighted_particles_converge_to_the_target_in_total_variation() {
    let (table, reward) = parts();
    let target = truth(&table, &reward);
    let distance = |particles: usize, potential| {
        let outcome =
            run(&fk(particles, potential, Resampling::Systematic), &problem(3, &table, &reward), 5);
        let logs: Vec<f64> = outcome.finals.iter().map(|particle| particle.log_weight).collect();
        let weights = LogWeights::new("particles", &logs).unwrap();
        let mut share = vec![0.0; table.probs().len()];
        for (particle, weight) in outcome.finals.iter().zip(weights.normalised()) {
            share[exact::index(3, &particle.tokens)] += weight;
        }
        exact::total_variation(&share, &target.probs)
    };
    for &potential in Potential::ALL {
        let (few, many) = (distance(16, potential), distance(6000, potential));
        assert!(many < few && many < 0.06, "{potential}: {few} → {many}");
    }
    assert!(
        exact::total_variation(table.probs(), &target.probs) > 0.06,
        "the target is not the prior"
    );
}

#[test]
fn two_copies_of_one_particle_part_ways_after_the_next_step() {
    let table = JointTable::random(3, 5, Key::new(1));
    // A reward that one first token wins, so that copies are certain.
    let reward = FnReward::new("first", |x| if x[0] == 1 { 5.0 } else { 0.0 });
    for sampler in [Sampler::FirstHitting, Sampler::Ancestral { steps: 6 }] {
        let method = FkSteering {
            particles: 12,
            sampler,
            lambda: 4.0,
            ..fk(12, Potential::Diff, Resampling::Multinomial)
        };
        let mut children: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        let mut copied = Vec::new();
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event {
                if node.slots.len() > 1 && node.masks_left > 1 {
                    copied.push(node.id);
                }
                if let Some(parent) = node.parent {
                    let step = node.step.unwrap();
                    children.entry(parent).or_default().push((node.position, node.token, step));
                }
            }
            std::ops::ControlFlow::Continue(())
        };
        method.run(&problem(5, &table, &reward), Key::new(6), &mut observer).unwrap();
        assert!(!copied.is_empty(), "{sampler:?}");
        let differ = copied.iter().filter(|id| {
            let own = &children[id];
            own.iter().any(|child| child != &own[0])
        });
        assert!(differ.count() * 2 > copied.len(), "most copied particles have differing children");
    }
}

#[test]
fn the_last_step_weighs_but_never_loses_the_best_particle() {
    let (table, reward) = parts();
    for seed in 0..50 {
        let outcome = run(
            &fk(6, Potential::Diff, Resampling::Multinomial),
            &problem(3, &table, &reward),
            seed,
        );
        let best = outcome.finals.iter().map(|particle| particle.value).fold(f64::MIN, f64::max);
        assert_eq!(outcome.reward, Some(best));
        assert_eq!(outcome.finals.len(), 6);
    }
}

#[test]
fn first_hitting_is_resampled_every_n_over_50_steps_by_default() {
    let masks =
        |n: usize| FkSteering { sampler: Sampler::FirstHitting, ..FkSteering::default() }.every(n);
    assert_eq!([1, 50, 51, 123, 128].map(masks), [1, 1, 2, 3, 3]);
    assert_eq!(FkSteering::default().every(123), 20, "1000 ancestral steps");
    let explicit = FkSteering { resample_every: Some(7), ..FkSteering::default() };
    assert_eq!(explicit.every(123), 7);
}

#[test]
fn an_interval_weighs_only_at_its_steps_and_at_the_end() {
    let table = JointTable::random(2, 5, Key::new(8));
    let reward = TableReward::random(2, 5, Key::new(9));
    let method =
        FkSteering { resample_every: Some(2), ..fk(3, Potential::Diff, Resampling::Multinomial) };
    let mut weighed = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Step(step) = event {
            weighed.push((step.ess.is_some(), step.resampled));
        }
        std::ops::ControlFlow::Continue(())
    };
    let outcome = method.run(&problem(5, &table, &reward), Key::new(1), &mut observer).unwrap();
    let expected = [(false, false), (true, true), (false, false), (true, true), (true, false)];
    assert_eq!(weighed, expected);
    // 2 weighings × 3 particles × 2 completions, and 3 exact scores at the end.
    assert_eq!(outcome.cost.reward_requests(), 15);
}

#[test]
fn a_high_effective_sample_size_keeps_the_particles() {
    let (table, _) = parts();
    let flat = FnReward::new("flat", |_| 1.0);
    let method = FkSteering { ess: Some(0.5), ..fk(4, Potential::Diff, Resampling::Multinomial) };
    let mut resampled = 0;
    let mut observer = |event: &Event| {
        if let Event::Step(step) = event {
            resampled += usize::from(step.resampled);
            assert_eq!(step.ess, Some(4.0));
        }
        std::ops::ControlFlow::Continue(())
    };
    method.run(&problem(3, &table, &flat), Key::new(1), &mut observer).unwrap();
    assert_eq!(resampled, 0);
}

#[test]
fn weights_survive_rewards_that_would_overflow_outside_log_space() {
    let (table, _) = parts();
    let steep = FnReward::new("steep", |x| f64::from(x[0]) * 1e4 - 3e4);
    for &potential in Potential::ALL {
        let outcome =
            run(&fk(8, potential, Resampling::Multinomial), &problem(3, &table, &steep), 2);
        assert!(outcome.log_normalizer.unwrap().is_finite());
    }
}

#[test]
fn every_resampling_scheme_gives_the_expected_number_of_copies() {
    let logs = [0.1f64.ln(), 0.45f64.ln(), f64::NEG_INFINITY, 0.25f64.ln(), 0.2f64.ln()];
    let weights = LogWeights::new("w", &logs).unwrap();
    for &scheme in Resampling::ALL {
        let runs = 8000u64;
        let mut copies = [0u64; 5];
        for i in 0..runs {
            let ancestors = draw(scheme, &weights, Key::new(4).fold(i));
            assert_eq!(ancestors.len(), 5);
            let mut own = [0u64; 5];
            ancestors.iter().for_each(|&a| own[a] += 1);
            for (count, w) in own.iter().zip(weights.normalised()) {
                let expected = 5.0 * w;
                if scheme == Resampling::Systematic {
                    assert!((*count as f64 - expected).abs() < 1.0 + 1e-9);
                }
                if scheme == Resampling::Residual {
                    assert!(*count as f64 >= expected.floor() - 1e-9);
                }
            }
            copies.iter_mut().zip(own).for_each(|(total, n)| *total += n);
        }
        for (count, w) in copies.iter().zip(weights.normalised()) {
            let mean = *count as f64 / runs as f64;
            assert!((mean - 5.0 * w).abs() < 0.06, "{scheme}: {mean} copies, not {}", 5.0 * w);
        }
    }
}

#[test]
fn the_effective_sample_size_and_the_mean_weight_equal_their_definitions() {
    let weights = LogWeights::new("w", &[1f64.ln(), 3f64.ln()]).unwrap();
    assert!((weights.effective_sample_size() - 16.0 / 10.0).abs() < 1e-12);
    assert!((weights.log_mean() - 2f64.ln()).abs() < 1e-12);
    assert!((weights.normalised()[1] - 0.75).abs() < 1e-12);
}

#[test]
fn the_reference_variant_has_1001_steps_and_51_resamplings() {
    let (table, reward) = parts();
    let method = FkReference { particles: 2, ..FkReference::default() };
    let mut events = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Step(step) = event
            && step.resampled
        {
            events.push(step.step);
        }
        std::ops::ControlFlow::Continue(())
    };
    let outcome = method.run(&problem(3, &table, &reward), Key::new(1), &mut observer).unwrap();
    let expected: Vec<usize> = (1..=50).map(|i| 20 * i - 1).chain([1000]).collect();
    assert_eq!(events, expected);
    assert_eq!(outcome.steps, 1001);
    assert_eq!(outcome.cost.nfe_requests(), 2 * 1001);
    // 51 · 4 · k as in the reference, and one exact score of the answer, noted.
    assert_eq!(outcome.cost.reward_requests(), 51 * 4 * 2 + 1);
    assert!(outcome.notes.iter().any(|note| note.what == "exact reward"));
}

#[test]
fn the_reference_variant_says_when_it_replaces_all_zero_weights() {
    let (table, _) = parts();
    let low = FnReward::new("low", |_| -1e6);
    let method = FkReference { potential: Potential::Rt, ..FkReference::default() };
    let outcome = run(&method, &problem(3, &table, &low), 1);
    assert!(outcome.notes.iter().any(|note| note.what == "fk reference weights"));
    // The honest variant works in log space and needs no such repair.
    let honest = run(&fk(4, Potential::Rt, Resampling::Multinomial), &problem(3, &table, &low), 1);
    assert!(honest.notes.is_empty());
}

#[test]
fn the_reference_variant_can_lose_its_best_particle() {
    let (table, reward) = parts();
    let method = FkReference { particles: 4, lambda: 0.1, ..FkReference::default() };
    let lost = (0..20).any(|seed| {
        let outcome = run(&method, &problem(3, &table, &reward), seed);
        let mut kept: Vec<_> = outcome.finals.iter().map(|particle| &particle.tokens).collect();
        kept.sort();
        kept.dedup();
        kept.len() < 4
    });
    assert!(lost, "the terminal multinomial draw drops particles");
}

#[test]
fn the_potentials_weigh_particles_by_their_formulas() {
    let table = JointTable::random(3, 4, Key::new(1));
    let reward = TableReward::random(3, 4, Key::new(2));
    for &potential in Potential::ALL {
        // A trigger that never fires: weights build up, and slots keep their particles.
        let method = FkSteering { ess: Some(1e-9), ..fk(5, potential, Resampling::Multinomial) };
        let mut values: Vec<Vec<f64>> = Vec::new();
        let mut sizes = Vec::new();
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) => {
                    if let Some(step) = node.step {
                        values.resize(values.len().max(step + 1), Vec::new());
                        values[step].push(node.value.unwrap());
                    }
                }
                Event::Step(step) => sizes.push(step.ess.unwrap()),
                _ => {}
            }
            std::ops::ControlFlow::Continue(())
        };
        method.run(&problem(4, &table, &reward), Key::new(3), &mut observer).unwrap();
        let log_weight = |step: usize, slot: usize| -> f64 {
            let r: Vec<f64> = (0..=step).map(|i| values[i][slot]).collect();
            let top = |i: usize| r[..=i].iter().copied().fold(f64::MIN, f64::max);
            // The last step makes the product exp(λ r) of the final sequence.
            let last = step == 3;
            LAMBDA
                * match potential {
                    _ if last => r[3],
                    Potential::Diff => r[step],
                    Potential::Max => (0..=step).map(top).sum(),
                    Potential::Add => (0..=step).map(|i| r[..=i].iter().sum::<f64>()).sum(),
                    Potential::Rt => r.iter().sum(),
                }
        };
        for (step, size) in sizes.iter().enumerate() {
            let logs: Vec<f64> = (0..5).map(|slot| log_weight(step, slot)).collect();
            let expected = LogWeights::new("by hand", &logs).unwrap().effective_sample_size();
            assert!((size - expected).abs() < 1e-9, "{potential}, step {step}: {size}, {expected}");
        }
    }
}
