//! Particle Gibbs: its first sweep is FK steering, and every sweep leaves the target as it is.

use std::{collections::BTreeMap, ops::ControlFlow};

use treasure_core::{
    AnswerKind, Event, Key, MaskedSeq, Potential, Resampling, Sampler, Silent,
    methods::{FkSteering, Pg, Search, Smc},
};
use treasure_testkit::{JointTable, TableReward, exact};

use crate::common::{placed, problem, run, target_of};

const LAMBDA: f64 = 2.0;

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 3, Key::new(1)), TableReward::random(3, 3, Key::new(2)))
}

fn pg(particles: usize, iterations: usize) -> Pg {
    Pg { particles, iterations, lambda: LAMBDA, x0_samples: 2, ..Pg::default() }
}

#[test]
fn the_first_sweep_is_feynman_kac_steering() {
    let (table, reward) = parts();
    for sampler in [Sampler::FirstHitting, Sampler::Ancestral { steps: 7 }] {
        for seed in 0..20 {
            let one = Pg { sampler, ..pg(4, 1) };
            let fk = FkSteering {
                particles: 4,
                sampler,
                lambda: LAMBDA,
                potential: Potential::Diff,
                resample: Resampling::Multinomial,
                x0_samples: 2,
                ..FkSteering::default()
            };
            let a = run(&one, &problem(3, &table, &reward), seed);
            let b = run(&fk, &problem(3, &table, &reward), seed);
            assert_eq!((&a.tokens, a.reward, a.cost), (&b.tokens, b.reward, b.cost));
            let gap = a.log_normalizer.unwrap() - b.log_normalizer.unwrap();
            assert!(gap.abs() < 1e-9, "{gap}");
            for (a, b) in a.finals.iter().zip(&b.finals) {
                assert_eq!(a.tokens, b.tokens);
                assert!((a.log_weight - b.log_weight).abs() < 1e-9);
            }
        }
    }
}

/// Whether a drawn answer, weighed by the estimate of the normaliser that came with it, has the law of
/// the target: for a valid sampler E[Ẑ·1(x)] = Z·π(x) exactly, at any number of particles. Returns the
/// largest deviation over all sequences, in standard errors.
fn deviation(method: &dyn Search, runs: u64) -> f64 {
    let (table, reward) = parts();
    let target = target_of(&table, &reward, LAMBDA);
    let z = target.log_normalizer.exp();
    let problem = problem(3, &table, &reward).with_answer(AnswerKind::Draw);
    let mut sums = vec![(0.0, 0.0); 27];
    for seed in 0..runs {
        let found = method.run(&problem, Key::new(31).fold(seed), &mut Silent).unwrap();
        let weight = found.log_normalizer.unwrap().exp();
        let drawn = exact::index(3, &found.tokens);
        for (x, (sum, squares)) in sums.iter_mut().enumerate() {
            let hit = if x == drawn { weight } else { 0.0 };
            *sum += hit - z * target.probs[x];
            *squares += (hit - z * target.probs[x]).powi(2);
        }
    }
    // Sequences too rare to be counted say nothing.
    let often = |x: usize| target.probs[x] * runs as f64 > 30.0;
    let all = sums.into_iter().enumerate().filter(|(x, _)| often(*x));
    all.map(|(_, (sum, squares))| sum.abs() / squares.sqrt()).fold(0.0, f64::max)
}

#[test]
fn a_sweep_leaves_the_target_as_it_is_with_two_particles() {
    // 27 cells at 4.5 standard errors; a wrong kernel is off by far more at these counts.
    for (iterations, runs) in [(1, 12_000), (2, 16_000), (4, 8_000)] {
        let worst = deviation(&pg(2, iterations), runs);
        assert!(worst < 4.5, "{iterations} sweeps: {worst} standard errors");
    }
    let worst = deviation(&Pg { resample_every: Some(2), ..pg(3, 2) }, 8_000);
    assert!(worst < 4.5, "weighed at every second step: {worst} standard errors");
    let ancestral = Pg { sampler: Sampler::Ancestral { steps: 40 }, ..pg(2, 2) };
    let worst = deviation(&ancestral, 3_000);
    assert!(worst < 5.0, "ancestral, exact up to a reveal of two masks at once: {worst}");
}

#[test]
fn particles_of_other_methods_are_exact_in_the_same_sense() {
    for beam in [1, 2] {
        let smc = Smc { particles: 2, beam_width: beam.into(), lambda: LAMBDA, ..Smc::default() };
        let worst = deviation(&smc, 10_000);
        assert!(worst < 4.5, "smc, b = {beam}: {worst} standard errors");
    }
}

#[test]
fn more_sweeps_come_closer_to_the_target_than_one() {
    let (table, reward) = parts();
    let lambda = 6.0;
    let target = target_of(&table, &reward, lambda);
    let distance = |iterations: usize| {
        let runs = 3000;
        let mut share = vec![0.0; 27];
        for seed in 0..runs {
            let problem = problem(3, &table, &reward).with_answer(AnswerKind::Draw);
            let found = run(&Pg { lambda, ..pg(3, iterations) }, &problem, seed);
            share[exact::index(3, &found.tokens)] += 1.0 / runs as f64;
        }
        exact::total_variation(&share, &target.probs)
    };
    // 3,000 draws scatter by about 0.03.
    let (one, many) = (distance(1), distance(16));
    assert!(many < 0.07 && many < 0.5 * one, "{one} → {many}");
}

#[test]
fn the_reference_costs_nothing_and_the_answer_is_the_best_of_all_sweeps() {
    let table = JointTable::random(3, 5, Key::new(1));
    let reward = TableReward::random(3, 5, Key::new(2));
    for seed in 0..10 {
        let method = Pg { particles: 4, iterations: 3, x0_samples: 2, ..Pg::default() };
        let mut best = f64::MIN;
        let mut ids = 0;
        let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event {
                let parent = node.parent.map_or(MaskedSeq::empty(5), |id| states[&id].clone());
                let state = placed(&parent, node);
                assert_eq!(state.n_masked(), node.masks_left);
                if let (0, Some(value)) = (node.masks_left, node.value) {
                    best = best.max(value);
                }
                assert_eq!(node.id, ids, "numbered in the order they are told");
                ids += 1;
                states.insert(node.id, state);
            }
            ControlFlow::Continue(())
        };
        let problem = problem(5, &table, &reward);
        let found = method.run(&problem, Key::new(seed), &mut observer).unwrap();
        assert_eq!(found.reward, Some(best));
        assert_eq!(found.reward, Some(reward.of(&found.tokens)));
        assert_eq!((found.steps, found.finals.len()), (15, 4));
        // M(k − 1) + 1 = 10 paths of five events, four of them weighed by two completions.
        assert_eq!(found.cost.nfe_requests(), 10 * 5);
        assert_eq!(found.cost.reward_requests(), 10 * (4 * 2 + 1));
        assert_eq!(method.nominal_cost(5).nfe, 50);
    }
}

/// A node of a trace: the node it came from, and its value.
type Told = BTreeMap<u64, (Option<u64>, f64)>;

/// log w of a node, λ times what it gained over the node it came from.
fn gained(told: &Told, id: u64) -> f64 {
    let (parent, value) = told[&id];
    LAMBDA * (value - parent.map_or(0.0, |parent| told[&parent].1))
}

#[test]
fn the_reference_is_weighed_along_its_own_line() {
    // Its nodes are not told again, but what is left of the effective sample size is its weight.
    const STEPS: usize = 4;
    let table = JointTable::random(3, STEPS, Key::new(1));
    let reward = TableReward::random(3, STEPS, Key::new(2));
    let (mut told_apart, mut sweeps) = (0, 0);
    for seed in 0..30 {
        let mut told: Told = BTreeMap::new();
        let mut children: Vec<u64> = Vec::new();
        let mut lasts: Vec<u64> = Vec::new();
        // (children, effective sample size) of every step.
        let mut steps: Vec<(Vec<u64>, f64)> = Vec::new();
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) => {
                    let start = node.parent.is_none();
                    told.insert(node.id, (node.parent, node.value.unwrap_or(0.0)));
                    children.extend((!start).then_some(node.id));
                }
                Event::Step(step) => {
                    steps.push((std::mem::take(&mut children), step.ess.unwrap()));
                    if steps.len() < STEPS {
                        return ControlFlow::Continue(());
                    }
                    let steps = std::mem::take(&mut steps);
                    // The ends that the reference of this sweep may lead to: those of the sweep before.
                    let fits = |&end: &u64| {
                        let up = |id: &u64| told[id].0;
                        let mut line: Vec<u64> =
                            std::iter::successors(Some(end), up).take(STEPS).collect();
                        line.reverse();
                        line.iter().zip(&steps).all(|(&id, (children, ess))| {
                            let all = children.iter().chain([&id]).map(|&id| gained(&told, id));
                            let weights: Vec<f64> = all.map(f64::exp).collect();
                            let sum: f64 = weights.iter().sum();
                            let squares: f64 = weights.iter().map(|w| w * w).sum();
                            (sum * sum / squares - ess).abs() < 1e-9
                        })
                    };
                    let before = std::mem::take(&mut lasts);
                    if !before.is_empty() {
                        lasts = before.iter().copied().filter(fits).collect();
                        assert!(!lasts.is_empty(), "seed {seed}: no line of the sweep before fits");
                        told_apart += usize::from(lasts.len() < before.len());
                        sweeps += 1;
                    }
                    lasts.extend(&steps[STEPS - 1].0);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        let method = Pg { resample_every: Some(1), ..pg(3, 5) };
        method.run(&problem(STEPS, &table, &reward), Key::new(seed), &mut observer).unwrap();
    }
    assert_eq!(sweeps, 30 * 4);
    assert!(told_apart > 100, "of {sweeps} sweeps {told_apart} tell which line it is");
}

#[test]
fn one_particle_cannot_be_the_reference_and_move() {
    let error = Pg { particles: 1, ..Pg::default() }.check().unwrap_err();
    assert_eq!(error.to_string(), "particles: expected at least 2: one is the reference, got 1");
    assert!(Pg { particles: 1, iterations: 1, ..Pg::default() }.check().is_ok());
}
