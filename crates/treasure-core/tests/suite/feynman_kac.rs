//! Feynman–Kac steering against the enumerated target.

use std::collections::BTreeMap;

use treasure_core::{
    Event, Key, MaskedSeq, Potential, Resampling, Sampler, Silent, WeighBy,
    methods::{BestOfN, FkReference, FkSteering, Search},
    resample::{LogWeights, draw},
};
use treasure_testkit::{FnReward, JointTable, TableReward, exact};

use crate::common::{placed, problem, run, target_of};

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

fn truth(table: &JointTable, reward: &TableReward) -> exact::Target {
    target_of(table, reward, LAMBDA)
}

#[test]
fn the_normaliser_is_unbiased_for_every_potential_and_scheme() {
    let (table, reward) = parts();
    let expected = truth(&table, &reward).log_normalizer.exp();
    let problem = problem(3, &table, &reward);
    for &potential in Potential::ALL {
        for &resample in Resampling::ALL {
            for (ess, weigh_by) in [(None, None), (Some(0.5), None), (None, Some(WeighBy::Parent))]
            {
                let method = FkSteering { ess, weigh_by, ..fk(4, potential, resample) };
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
                    "{potential}, {resample}, {ess:?}, {weigh_by:?}: {mean} ± {error}, not {expected}"
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
fn residual_resampling_draws_what_is_left_by_its_residuals_however_many_there_are() {
    // Expected copies 0.5, 0.7, 0.8, 2.5, 0.5 and 1.4, 0.9, 0.7, 1.6, 0.4: residuals of 3 and of 3;
    // 1.6, 0.8, 0.6, 1.0, 1.0: residuals of 2.
    for expected in
        [[0.5, 0.7, 0.8, 2.5, 0.5], [1.4, 0.9, 0.7, 1.6, 0.4], [1.6, 0.8, 0.6, 1.0, 1.0]]
    {
        let logs: Vec<f64> = expected.iter().map(|copies: &f64| (copies / 5.0).ln()).collect();
        let weights = LogWeights::new("w", &logs).unwrap();
        for &scheme in Resampling::ALL {
            let runs = 20_000u64;
            let mut copies = [0u64; 5];
            for i in 0..runs {
                let ancestors = draw(scheme, &weights, Key::new(14).fold(i));
                ancestors.iter().for_each(|&a| copies[a] += 1);
            }
            for (count, expected) in copies.iter().zip(expected) {
                let mean = *count as f64 / runs as f64;
                // At most multinomial spread: √(n w / runs) < 0.012.
                assert!((mean - expected).abs() < 0.05, "{scheme}: {mean} copies, not {expected}");
            }
        }
    }
}

#[test]
fn copies_are_drawn_independently_where_the_scheme_says_so() {
    // One number for all draws has the right mean; the variance n·w·(1 − w) tells it apart.
    let w = [0.1, 0.45, 0.25, 0.2];
    let logs: Vec<f64> = w.iter().map(|w: &f64| w.ln()).collect();
    let weights = LogWeights::new("w", &logs).unwrap();
    let (runs, n) = (20_000u64, 4.0);
    let mut squares = [0.0; 4];
    let mut both = 0.0;
    for i in 0..runs {
        let mut own = [0.0; 4];
        for a in draw(Resampling::Multinomial, &weights, Key::new(15).fold(i)) {
            own[a] += 1.0;
        }
        for ((square, own), w) in squares.iter_mut().zip(own).zip(w) {
            *square += (own - n * w).powi(2) / runs as f64;
        }
        both += (own[1] - n * w[1]) * (own[2] - n * w[2]) / runs as f64;
    }
    for (variance, w) in squares.iter().zip(w) {
        let expected = n * w * (1.0 - w);
        assert!((variance - expected).abs() < 0.06 * expected, "{variance}, not {expected}");
    }
    let expected = -n * w[1] * w[2];
    assert!((both - expected).abs() < 0.06 * expected.abs(), "covariance {both}, not {expected}");
    // Of the residual scheme only what is left is drawn.
    let weights = LogWeights::new("w", &[0.5f64.ln(), 0.5f64.ln()]).unwrap();
    for i in 0..50 {
        assert_eq!(draw(Resampling::Residual, &weights, Key::new(1).fold(i)), [0, 1]);
    }
}

#[test]
fn systematic_resampling_never_draws_what_has_no_weight() {
    let logs = [f64::NEG_INFINITY, 0.1f64.ln(), 0.7f64.ln(), 0.2f64.ln(), f64::NEG_INFINITY];
    let weights = LogWeights::new("w", &logs).unwrap();
    for i in 0..2000 {
        let ancestors = draw(Resampling::Systematic, &weights, Key::new(16).fold(i));
        assert!(ancestors.iter().all(|a| (1..=3).contains(a)), "{ancestors:?}");
    }
    // So many equal weights that their sum, as it is rounded, falls short of the last point.
    let n = 99_991;
    let mut logs = vec![0.0; n];
    logs.push(f64::NEG_INFINITY);
    let weights = LogWeights::new("w", &logs).unwrap();
    let sum = weights.normalised().iter().fold(0.0, |sum, weight| sum + weight);
    let beyond = |key: &Key| (n as f64 + key.uniform()) / (n + 1) as f64 > sum;
    let key = (0..200_000_000).map(|i| Key::new(17).fold(i)).find(beyond).unwrap();
    assert_eq!(draw(Resampling::Systematic, &weights, key)[n], n - 1);
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

/// What a replay met.
struct Replayed {
    /// Weights above what the reference allows.
    clamped: u32,
    /// Steps whose weights were all zero.
    repaired: u32,
    /// Whether the last weights, after such a step, still told particles apart.
    tells: bool,
}

/// Replays the reference's resampler from a trace, in its own arithmetic, and compares every step.
fn replayed(method: &FkReference, reward: &dyn treasure_core::Reward, seed: u64) -> Replayed {
    let table = JointTable::random(3, 3, Key::new(21));
    let k = method.particles;
    let (mut stored, mut product) = (vec![0f64; k], vec![1f32; k]);
    let mut children: Vec<(f64, Vec<usize>)> = Vec::new();
    let (mut clamped, mut repaired, mut tells) = (0, 0, false);
    let mut observer = |event: &Event| {
        match event {
            Event::Node(node) if node.step.is_some() => {
                assert_eq!(node.parent_slot, Some(children.len()), "one child a slot, in order");
                children.push((node.value.unwrap_or(f64::NAN), node.slots.clone()));
            }
            Event::Step(step) if !step.resampled => {
                for (slot, (_, slots)) in children.drain(..).enumerate() {
                    assert_eq!(slots, [slot]);
                }
            }
            Event::Step(step) => {
                let rewards: Vec<f64> = (children.iter().zip(&stored))
                    .map(|(&(value, _), &stored)| match method.potential {
                        Potential::Max => value.max(stored),
                        Potential::Add => value + stored,
                        Potential::Diff | Potential::Rt => value,
                    })
                    .collect();
                let lambda = method.lambda as f32;
                let last = step.step == 1000;
                let mut w: Vec<f32> = (0..k)
                    .map(|i| match method.potential {
                        Potential::Diff => (lambda * (rewards[i] as f32 - stored[i] as f32)).exp(),
                        _ if last => (lambda * rewards[i] as f32).exp() / product[i],
                        _ => (lambda * rewards[i] as f32).exp(),
                    })
                    .collect();
                for w in &mut w {
                    clamped += u32::from(*w > 1e10);
                    *w = if w.is_nan() { 0.0 } else { w.clamp(0.0, 1e10) };
                }
                if w.iter().sum::<f32>() == 0.0 {
                    repaired += 1;
                    w.fill(1.0);
                }
                let low = w.iter().copied().fold(f32::MAX, f32::min);
                let apart = w.iter().any(|&w| w > 1.2 * low);
                tells = repaired > 0 && low > 0.0 && apart;
                let sum: f64 = w.iter().map(|&w| f64::from(w)).sum();
                let squares: f64 = w.iter().map(|&w| (f64::from(w) / sum).powi(2)).sum();
                let ess = step.ess.unwrap();
                assert!((ess * squares - 1.0).abs() < 2e-3, "step {}: {ess}", step.step);
                let (before, products) = (rewards, product.clone());
                for (i, (_, slots)) in children.drain(..).enumerate() {
                    for slot in slots {
                        assert!(w[i] > 0.0, "what has no weight is not drawn");
                        stored[slot] = before[i];
                        product[slot] = products[i] * w[i];
                    }
                }
            }
            _ => {}
        }
        std::ops::ControlFlow::Continue(())
    };
    let found = method.run(&problem(3, &table, reward), Key::new(seed), &mut observer).unwrap();
    // The answer is the first with the highest running reward.
    let best = (0..k).reduce(|best, i| if stored[i] > stored[best] { i } else { best }).unwrap();
    assert_eq!(found.tokens, found.finals[best].tokens);
    for (particle, stored) in found.finals.iter().zip(&stored) {
        assert_eq!(particle.value, *stored);
    }
    Replayed { clamped, repaired, tells }
}

#[test]
fn the_reference_variant_weighs_line_by_line_as_its_reference() {
    let reward = TableReward::random(3, 3, Key::new(2));
    let (mut clamped, mut plain) = (0, 0);
    for &potential in Potential::ALL {
        for lambda in [0.3, 3.0, 40.0] {
            for seed in 0..3 {
                let x0_samples = 2;
                let method = FkReference { potential, lambda, x0_samples, ..Default::default() };
                let over = replayed(&method, &reward, seed).clamped;
                clamped += over;
                plain += u32::from(over == 0);
            }
        }
    }
    assert!(clamped > 100 && plain > 10, "both with and without the clamp: {clamped}, {plain}");
}

#[test]
fn the_reference_variant_replaces_all_zero_weights_before_it_multiplies() {
    // Completions that begin with 1 or 2 have weights that are 0 in float32. After few resamplings the
    // particles are still different, and the product of potentials is within the clamp.
    let mostly =
        FnReward::new(
            "mostly low",
            |x| {
                if x[0] > 0 { -50.0 } else { -0.05 * f64::from(x[1] + x[2]) }
            },
        );
    let (mut repaired, mut told) = (0, 0);
    for potential in [Potential::Rt, Potential::Diff] {
        for seed in 0..60 {
            let (particles, resample_every, x0_samples) = (2, 400, 1);
            let own =
                FkReference { potential, particles, resample_every, x0_samples, lambda: 10.0 };
            let found = replayed(&own, &mostly, seed);
            repaired += found.repaired;
            told += u32::from(found.tells && potential == Potential::Rt);
        }
    }
    assert!(repaired > 20, "{repaired}");
    assert!(told > 2, "{told} ends whose products have been through a repair");
}

#[test]
fn the_reference_variant_answers_with_the_first_particle_where_all_running_maxima_are_zero() {
    // Log-probabilities never exceed the reference's initial 0.
    let (table, _) = parts();
    let negative = FnReward::new("negative", |x| -1.0 - f64::from(x[0] + x[1] + x[2]));
    let method = FkReference { potential: Potential::Max, lambda: 0.1, ..FkReference::default() };
    let mut differ = 0;
    for seed in 0..20 {
        let found = run(&method, &problem(3, &table, &negative), seed);
        assert_eq!(found.tokens, found.finals[0].tokens);
        differ += usize::from(found.finals.iter().any(|other| other.tokens != found.tokens));
    }
    assert!(differ > 0, "there was something to choose from");
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
fn a_particle_is_weighed_by_its_own_prediction_or_blindly_by_its_parents() {
    let table = JointTable::random(3, 3, Key::new(1));
    let reward = TableReward::random(3, 3, Key::new(2));
    for (weigh_by, own) in
        [(None, true), (Some(WeighBy::Own), true), (Some(WeighBy::Parent), false)]
    {
        let method = FkSteering {
            weigh_by,
            x0_samples: 4000,
            ..fk(4, Potential::Diff, Resampling::Multinomial)
        };
        let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
        let mut apart = 0;
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event {
                let start = MaskedSeq::empty(3);
                let parent = node.parent.map_or(start, |id| states[&id].clone());
                let state = placed(&parent, node);
                if let (Some(value), true) = (node.value, state.n_masked() > 0) {
                    let soft = |seq: &MaskedSeq| {
                        let rows = table.conditionals(seq);
                        exact::product_expectation(seq, &rows, |x| reward.of(x).exp()).ln()
                    };
                    let (mine, parents) = (soft(&state), soft(&parent));
                    let expected = if own { mine } else { parents };
                    assert!((value - expected).abs() < 0.03, "{weigh_by:?}: {value}, {expected}");
                    apart += usize::from((mine - parents).abs() > 0.06);
                }
                states.insert(node.id, state);
            }
            std::ops::ControlFlow::Continue(())
        };
        let found = method.run(&problem(3, &table, &reward), Key::new(3), &mut observer).unwrap();
        assert!(apart > 0, "the two differ somewhere");
        // Its own prediction costs nothing: the next step needs it anyway.
        assert_eq!(found.cost.nfe_requests(), 4 * 3);
    }
    assert_eq!(
        FkSteering::default().sampler.name(),
        "ancestral",
        "which keeps the reference's way"
    );
}

#[test]
fn completions_are_drawn_apart_from_what_the_step_reveals() {
    // Uniform tokens: a completion agrees with what was revealed at one place in four.
    let table = JointTable::new(4, 3, &[1.0; 64]);
    let reward = TableReward::new(4, (0..64).map(f64::from).collect());
    let method = FkSteering {
        particles: 1,
        sampler: Sampler::Ancestral { steps: 2 },
        x0_samples: 1,
        resample_every: Some(1),
        ..FkSteering::default()
    };
    let (mut agree, mut all) = (0, 0);
    for seed in 0..2000 {
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event
                && node.step == Some(0)
                && node.masks_left > 0
            {
                // The value is the place of the completion in the order of all sequences.
                let completion = exact::sequence(4, 3, node.value.unwrap().round() as usize);
                let reveal = node.position.zip(node.token);
                for (position, token) in reveal.into_iter().chain(node.also.iter().copied()) {
                    agree += u32::from(completion[position] == token);
                    all += 1;
                }
            }
            std::ops::ControlFlow::Continue(())
        };
        method.run(&problem(3, &table, &reward), Key::new(seed), &mut observer).unwrap();
    }
    let share = f64::from(agree) / f64::from(all);
    assert!((share - 0.25).abs() < 4.5 * (0.25f64 * 0.75 / f64::from(all)).sqrt(), "{share}");
}

#[test]
fn of_equal_finals_the_lowest_slot_is_the_answer() {
    let (table, _) = parts();
    let flat = FnReward::new("flat", |_| 0.5);
    let mut differ = 0;
    for seed in 0..10 {
        let bon = BestOfN { particles: 5, sampler: Sampler::FirstHitting };
        let found = run(&bon, &problem(3, &table, &flat), seed);
        assert_eq!(found.tokens, found.finals[0].tokens);
        differ += usize::from(found.finals[4].tokens != found.finals[0].tokens);
    }
    assert!(differ > 3);
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
