//! Fully adapted sequential Monte Carlo and tempering against the enumerated target.

use std::{collections::BTreeMap, ops::ControlFlow};

use treasure_core::{
    AnswerKind, Error, Event, Key, MaskedSeq, Outcome, Potential, Resampling, Sampler, Silent,
    Tempering,
    methods::{FkSteering, Search, Smc},
    resample::LogWeights,
};
use treasure_testkit::{JointTable, TableReward, exact};

use crate::common::{placed, problem, run, target_of};

const LAMBDA: f64 = 2.0;

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 3, Key::new(1)), TableReward::random(3, 3, Key::new(2)))
}

fn truth(table: &JointTable, reward: &TableReward) -> exact::Target {
    target_of(table, reward, LAMBDA)
}

fn smc(particles: usize, beam: usize) -> Smc {
    Smc { particles, beam_width: beam.into(), lambda: LAMBDA, ..Smc::default() }
}

/// The mean of estimates of Z with its standard error.
fn estimated(method: &dyn Search, runs: u64) -> (f64, f64) {
    let (table, reward) = parts();
    let problem = problem(3, &table, &reward);
    let estimates: Vec<f64> = (0..runs)
        .map(|i| {
            let outcome = method.run(&problem, Key::new(3).fold(i), &mut Silent).unwrap();
            outcome.log_normalizer.expect("it estimates the normaliser").exp()
        })
        .collect();
    let mean = estimates.iter().sum::<f64>() / runs as f64;
    let spread = estimates.iter().map(|z| (z - mean).powi(2)).sum::<f64>();
    (mean, spread.sqrt() / runs as f64)
}

/// The weighted final particles as a distribution over sequences.
fn weighted(outcome: &Outcome, cells: usize) -> Vec<f64> {
    let logs: Vec<f64> = outcome.finals.iter().map(|particle| particle.log_weight).collect();
    let weights = LogWeights::new("particles", &logs).unwrap();
    let mut share = vec![0.0; cells];
    for (particle, weight) in outcome.finals.iter().zip(weights.normalised()) {
        share[exact::index(3, &particle.tokens)] += weight;
    }
    share
}

#[test]
fn the_normaliser_is_unbiased_with_any_beam_scheme_and_fixed_tempering() {
    let (table, reward) = parts();
    let expected = truth(&table, &reward).log_normalizer.exp();
    for beam in [1, 2, 3] {
        for &resample in Resampling::ALL {
            for (ess, tempering) in [
                (None, Tempering::None),
                (Some(0.6), Tempering::None),
                (None, Tempering::Rising),
                (Some(0.6), Tempering::Rising),
            ] {
                let method = Smc { resample, ess, tempering, ..smc(3, beam) };
                let (mean, error) = estimated(&method, 700);
                assert!(
                    (mean - expected).abs() < 4.5 * error,
                    "b = {beam}, {resample}, {ess:?}, {tempering}: {mean} ± {error}, not {expected}"
                );
                assert!(error < 0.03 * expected, "the estimate has a low variance: {error}");
            }
        }
    }
}

#[test]
fn weighted_particles_converge_to_the_target_whatever_the_beam_and_the_tempering() {
    let (table, reward) = parts();
    let target = truth(&table, &reward);
    assert!(exact::total_variation(table.probs(), &target.probs) > 0.06);
    for beam in [1, 2, 3] {
        for &tempering in Tempering::ALL {
            let distance = |particles: usize| {
                let method = Smc { tempering, ..smc(particles, beam) };
                let outcome = run(&method, &problem(3, &table, &reward), 5);
                exact::total_variation(&weighted(&outcome, 27), &target.probs)
            };
            let (few, many) = (distance(8), distance(5000));
            // 5,000 particles over 27 cells scatter by about 0.03.
            assert!(many < few && many < 0.05, "b = {beam}, {tempering}: {few} → {many}");
        }
    }
}

#[test]
fn a_drawn_answer_follows_the_target() {
    let (table, reward) = parts();
    let target = truth(&table, &reward);
    let draws = 4000;
    let mut counts = vec![0u64; 27];
    for seed in 0..draws {
        let problem = problem(3, &table, &reward).with_answer(AnswerKind::Draw);
        counts[exact::index(3, &run(&smc(12, 2), &problem, seed).tokens)] += 1;
    }
    let share: Vec<f64> = counts.iter().map(|&count| count as f64 / draws as f64).collect();
    let distance = exact::total_variation(&share, &target.probs);
    // 4,000 draws over 27 cells scatter by about 0.03; twelve particles are close to the target.
    assert!(distance < 0.05, "{distance}");
}

#[test]
fn without_a_reward_to_speak_of_it_is_the_model() {
    let (table, reward) = parts();
    let mut counts = vec![0u64; 27];
    for seed in 0..8000 {
        let problem = problem(3, &table, &reward).with_answer(AnswerKind::Draw);
        let method = Smc { lambda: 1e-9, ..smc(1, 3) };
        counts[exact::index(3, &run(&method, &problem, seed).tokens)] += 1;
    }
    let z = exact::chi_square_z(&counts, table.probs());
    assert!(z.abs() < 4.0, "{z}");
}

#[test]
fn parents_are_weighed_by_what_all_their_children_promise() {
    let (table, reward) = parts();
    // A trigger that never fires: weights build up, and slots keep their particles.
    for (tempering, gamma) in [(Tempering::None, None), (Tempering::Rising, Some(0.3))] {
        let temper_gamma = gamma;
        let method = Smc { ess: Some(1e-9), tempering, temper_gamma, ..smc(5, 3) };
        let lambda = |events: i32| match gamma {
            Some(gamma) if events < 3 => LAMBDA * ((1.0f64 + gamma).powi(events) - 1.0).min(1.0),
            _ => LAMBDA,
        };
        let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
        let mut log_weights = [0.0; 5];
        let mut spent = [0.0; 5];
        let mut families: Vec<Vec<(f64, f64, bool)>> = vec![Vec::new(); 5];
        let mut checked = 0;
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) => {
                    let parent = node.parent.map_or(MaskedSeq::empty(3), |id| states[&id].clone());
                    states.insert(node.id, placed(&parent, node));
                    if let Some(slot) = node.parent_slot {
                        let at = parent.masked().position(|at| Some(at) == node.position).unwrap();
                        let row = &table.conditionals(&parent)[at];
                        let p = row[node.token.unwrap() as usize];
                        families[slot].push((p, node.value.unwrap(), node.kept));
                    }
                }
                Event::Step(step) => {
                    let lambda = lambda(step.step as i32 + 1);
                    for (slot, family) in families.iter_mut().enumerate() {
                        assert_eq!(family.len(), 3);
                        let sum: f64 = family.iter().map(|(p, r, _)| p * (lambda * r).exp()).sum();
                        log_weights[slot] += sum.ln() - spent[slot];
                        let kept: Vec<_> = family.drain(..).filter(|child| child.2).collect();
                        spent[slot] = lambda * kept[0].1;
                    }
                    let weights = LogWeights::new("by hand", &log_weights).unwrap();
                    let gap = weights.effective_sample_size() - step.ess.unwrap();
                    assert!(gap.abs() < 1e-9, "{tempering}, step {}: {gap}", step.step);
                    checked += 1;
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        let found = method.run(&problem(3, &table, &reward), Key::new(3), &mut observer).unwrap();
        assert_eq!(checked, 3);
        // At the end every child is there with its weight, and the best of them is the answer.
        assert_eq!(found.finals.len(), 15);
        let best = found.finals.iter().map(|particle| particle.reward).fold(f64::MIN, f64::max);
        assert_eq!(found.reward, Some(best));
        let mean = LogWeights::new("by hand", &log_weights).unwrap().log_mean();
        assert!((found.log_normalizer.unwrap() - mean).abs() < 1e-9);
        let logs: Vec<f64> = found.finals.iter().map(|particle| particle.log_weight).collect();
        let total = LogWeights::new("finals", &logs).unwrap().log_sum();
        assert!((total - 5f64.ln() - mean).abs() < 1e-9, "finals carry the same total weight");
    }
}

#[test]
fn it_costs_a_pass_a_particle_and_event_and_a_call_a_token() {
    let table = JointTable::random(4, 5, Key::new(1));
    let reward = TableReward::random(4, 5, Key::new(2));
    let found = run(&smc(3, 4), &problem(5, &table, &reward), 1);
    assert_eq!((found.cost.nfe_requests(), found.cost.reward_requests()), (3 * 5, 3 * 5 * 4));
    let found = run(&smc(3, 2), &problem(5, &table, &reward), 1);
    let calls = found.cost.reward_requests();
    assert!(
        (3 * 5 * 2..=3 * 5 * 3).contains(&calls),
        "two tokens, and mostly one of the rest: {calls}"
    );
    let nominal = smc(3, 2).nominal_cost(5);
    assert_eq!((nominal.nfe, nominal.reward_calls), (15, 45));
}

#[test]
fn fk_with_a_rising_lambda_weighs_by_the_formula() {
    let table = JointTable::random(3, 4, Key::new(1));
    let reward = TableReward::random(3, 4, Key::new(2));
    let method = FkSteering {
        particles: 5,
        sampler: Sampler::FirstHitting,
        lambda: LAMBDA,
        ess: Some(1e-9),
        tempering: Tempering::Rising,
        ..FkSteering::default()
    };
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); 4];
    let mut observer = |event: &Event| {
        match event {
            Event::Node(node) => {
                if let Some(step) = node.step {
                    values[step].push(node.value.unwrap());
                }
            }
            Event::Step(step) => {
                // λ·(2^{i/4} − 1) after i of four events; the product telescopes.
                let lambda = LAMBDA * ((step.step + 1) as f64 / 4.0).exp2() - LAMBDA;
                let logs: Vec<f64> = values[step.step].iter().map(|r| lambda * r).collect();
                let expected = LogWeights::new("w", &logs).unwrap().effective_sample_size();
                assert!((step.ess.unwrap() - expected).abs() < 1e-9, "step {}", step.step);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    method.run(&problem(4, &table, &reward), Key::new(3), &mut observer).unwrap();
}

#[test]
fn fk_stays_unbiased_with_a_rising_lambda_and_consistent_with_an_adaptive_one() {
    let (table, reward) = parts();
    let expected = truth(&table, &reward).log_normalizer.exp();
    let fk = |particles, potential, tempering| FkSteering {
        particles,
        sampler: Sampler::FirstHitting,
        lambda: LAMBDA,
        potential,
        x0_samples: 2,
        tempering,
        ..FkSteering::default()
    };
    for &potential in Potential::ALL {
        let (mean, error) = estimated(&fk(4, potential, Tempering::Rising), 1200);
        assert!((mean - expected).abs() < 4.5 * error, "{potential}: {mean} ± {error}");
    }
    let (mean, error) = estimated(&fk(64, Potential::Diff, Tempering::Adaptive), 150);
    assert!((mean - expected).abs() < 4.5 * error + 0.01, "{mean} ± {error}, not {expected}");
    let outcome =
        run(&fk(6000, Potential::Diff, Tempering::Adaptive), &problem(3, &table, &reward), 5);
    let target = truth(&table, &reward);
    assert!(exact::total_variation(&weighted(&outcome, 27), &target.probs) < 0.06);
}

/// Log-weights as numbers of effective particles.
fn effective(logs: &[f64]) -> f64 {
    LogWeights::new("w", logs).unwrap().effective_sample_size()
}

#[test]
fn an_adaptive_lambda_is_the_largest_that_keeps_enough_particles_effective() {
    let table = JointTable::random(3, 5, Key::new(1));
    let reward = TableReward::random(3, 5, Key::new(2));
    let (particles, share, lambda) = (10, 0.7, 20.0);
    let method = FkSteering {
        particles,
        sampler: Sampler::FirstHitting,
        lambda,
        tempering: Tempering::Adaptive,
        temper_share: Some(share),
        ..FkSteering::default()
    };
    let (mut at_the_bound, mut stayed) = (0, 0);
    for seed in 0..10 {
        let (mut spent, mut before) = (vec![0.0; particles], 0.0);
        let mut children: Vec<(f64, Vec<usize>)> = Vec::new();
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) if node.step.is_some() => {
                    children.push((node.value.unwrap(), node.slots.clone()));
                }
                Event::Step(step) => {
                    let logs = |lambda: f64| -> Vec<f64> {
                        (children.iter().zip(&spent))
                            .map(|(c, spent)| lambda * c.0 - spent)
                            .collect()
                    };
                    let enough = |lambda: f64| effective(&logs(lambda)) >= share * particles as f64;
                    // A fine grid from above, in place of the bisection.
                    let chosen = match step.step == 4 || enough(lambda) {
                        true => lambda,
                        false => (0..=20_000)
                            .map(|i| lambda + (before - lambda) * f64::from(i) / 20_000.0)
                            .find(|&lambda| enough(lambda))
                            .unwrap_or(before),
                    };
                    let gap = step.ess.unwrap() - effective(&logs(chosen));
                    assert!(gap.abs() < 0.05, "seed {seed}, step {}: {gap}", step.step);
                    at_the_bound += usize::from((step.ess.unwrap() - 7.0).abs() < 1e-3);
                    stayed += usize::from(chosen == before);
                    before = chosen;
                    let after: Vec<f64> = children.iter().map(|child| chosen * child.0).collect();
                    for (i, (_, slots)) in children.drain(..).enumerate() {
                        slots.iter().for_each(|&slot| spent[slot] = after[i]);
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        method.run(&problem(5, &table, &reward), Key::new(seed), &mut observer).unwrap();
    }
    assert!(at_the_bound > 10, "{at_the_bound}, and {stayed} times λ stayed");
}

#[test]
fn adaptive_tempering_wants_potentials_that_telescope() {
    let method = FkSteering {
        potential: Potential::Max,
        tempering: Tempering::Adaptive,
        ..FkSteering::default()
    };
    let error = method.check().unwrap_err();
    assert_eq!(error.to_string(), "potential: expected diff with adaptive tempering, got max");
    assert!(matches!(error, Error::Invalid { .. }));
}
