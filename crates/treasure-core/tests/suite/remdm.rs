//! Sampling that masks tokens again: its marginals, its law, and what it leaves alone.

use std::{collections::BTreeMap, ops::ControlFlow};

use treasure_core::{
    Bans, Event, Key, Limits, MaskedSeq, Problem, Remask, Sampler, Silent,
    methods::{BestOfN, FkSteering, Search, Svdd},
};
use treasure_testkit::{FnReward, JointTable, TableReward, exact};

use crate::common::{EXACT, placed, problem};

fn remdm(steps: usize, remask: Remask, eta: Option<f64>) -> Sampler {
    Sampler::Remdm { steps, remask, eta }
}

/// α of the loop, as published.
fn loop_alpha(t: f64) -> f64 {
    if t > 0.55 {
        (1.0 - t) * 0.9 / 0.45
    } else if t > 0.05 {
        0.9
    } else {
        1.0 - t * 0.1 / 0.05
    }
}

#[test]
fn tokens_are_revealed_with_the_chance_of_the_schedule_at_every_time() {
    let (particles, len, steps) = (900, 5, 10);
    let table = JointTable::random(2, len, Key::new(1));
    let reward = FnReward::new("zero", |_| 0.0);
    for (remask, eta, loops) in [
        (Remask::Cap, Some(0.3), false),
        (Remask::Rescale, Some(0.8), false),
        (Remask::Loop, Some(0.1), true),
    ] {
        let method = BestOfN { particles, sampler: remdm(steps, remask, eta) };
        let mut masks = vec![0usize; steps];
        let mut again = 0;
        let mut observer = |event: &Event| {
            if let Event::Node(node) = event
                && let Some(step) = node.step
            {
                masks[step] += node.masks_left;
                again += node.remasked.len();
            }
            ControlFlow::Continue(())
        };
        method.run(&problem(len, &table, &reward), Key::new(3), &mut observer).unwrap();
        assert!(again > particles / 2, "{remask}: {again} tokens were masked again");
        let cells = (particles * len) as f64;
        for (step, masks) in masks.into_iter().enumerate() {
            let s = 1.0 - (step + 1) as f64 / steps as f64;
            let alpha = if loops { loop_alpha(s) } else { 1.0 - s };
            let share = 1.0 - masks as f64 / cells;
            let error = (alpha * (1.0 - alpha) / cells).sqrt();
            assert!(
                (share - alpha).abs() < 4.5 * error + 1e-9,
                "{remask}, step {step}: {share} revealed, not {alpha} ± {error}"
            );
        }
    }
}

fn law(sampler: Sampler, table: &JointTable, len: usize, samples: u64) -> Vec<u64> {
    let reward = FnReward::new("zero", |_| 0.0);
    let problem = problem(len, table, &reward);
    let method = BestOfN { particles: 1, sampler };
    let mut counts = vec![0; table.probs().len()];
    for sample in 0..samples {
        let found = method.run(&problem, Key::new(7).fold(sample), &mut Silent).unwrap();
        counts[exact::index(table.tokens(), &found.tokens)] += 1;
    }
    counts
}

#[test]
fn where_positions_are_independent_every_rule_samples_the_joint() {
    let table = JointTable::product(&[vec![0.2, 0.3, 0.5], vec![0.6, 0.1, 0.3]]);
    for (remask, eta) in [
        (Remask::Cap, Some(0.4)),
        (Remask::Rescale, Some(0.9)),
        (Remask::Confidence, None),
        (Remask::Loop, Some(0.1)),
        (Remask::Cap, None),
    ] {
        let counts = law(remdm(6, remask, eta), &table, 2, 5000);
        let z = exact::chi_square_z(&counts, table.probs());
        assert!(z.abs() < 4.0, "{remask}: χ² is {z} standard deviations off");
    }
}

#[test]
fn masking_again_repairs_what_a_coarse_step_got_wrong() {
    // All tokens equal, nearly always: tokens revealed together disagree, and a second chance helps.
    let weights: Vec<f64> = exact::sequences(2, 4)
        .map(|x| if x.iter().all(|token| *token == x[0]) { 1.0 } else { 0.002 })
        .collect();
    let table = JointTable::new(2, 4, &weights);
    let samples = 6000;
    let distance = |sampler| {
        let counts = law(sampler, &table, 4, samples);
        let share: Vec<f64> = counts.iter().map(|&n| n as f64 / samples as f64).collect();
        exact::total_variation(&share, table.probs())
    };
    let steps = 16;
    let plain = distance(Sampler::Ancestral { steps });
    let again = distance(remdm(steps, Remask::Cap, Some(0.3)));
    assert!(again < 0.75 * plain, "{again} with remasking, {plain} without");
}

#[test]
fn a_prompt_is_never_masked_again_and_the_end_is_complete() {
    let table = JointTable::random(3, 5, Key::new(1));
    let reward = TableReward::random(3, 5, Key::new(2));
    let start = MaskedSeq::template([Some(2), None, None, Some(1), None]).unwrap();
    for &remask in Remask::ALL {
        let sampler = remdm(12, remask, Some(0.5));
        let methods: [&dyn Search; 3] = [
            &BestOfN { particles: 4, sampler },
            &FkSteering { particles: 4, sampler, resample_every: Some(3), ..Default::default() },
            &Svdd { particles: 3, chains: 2, sampler, alpha: 0.0 },
        ];
        for method in methods {
            let limits = Limits::default();
            let problem =
                Problem::new(start.clone(), &EXACT, &table, &reward, Bans::none(), limits).unwrap();
            let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
            let mut again = 0;
            let mut observer = |event: &Event| {
                if let Event::Node(node) = event {
                    let parent = node.parent.map_or(start.clone(), |id| states[&id].clone());
                    assert!(node.remasked.iter().all(|at| [1, 2, 4].contains(at)));
                    assert!(node.remasked.iter().all(|&at| parent.get(at).is_some()));
                    again += node.remasked.len();
                    let state = placed(&parent, node);
                    assert_eq!(state.n_masked(), node.masks_left);
                    states.insert(node.id, state);
                }
                ControlFlow::Continue(())
            };
            let found = method.run(&problem, Key::new(3), &mut observer).unwrap();
            assert_eq!((found.tokens[0], found.tokens[3]), (2, 1));
            assert_eq!(found.reward, Some(reward.of(&found.tokens)));
            assert!(again > 0, "{remask}");
        }
    }
}

#[test]
fn a_rule_by_confidence_masks_again_what_was_unsure() {
    // Position 0 is nearly certain, position 1 a coin: exp(−1/2) against exp(−0.99).
    let table = JointTable::product(&[vec![0.99, 0.01], vec![0.5, 0.5]]);
    let reward = FnReward::new("zero", |_| 0.0);
    let method = BestOfN { particles: 4000, sampler: remdm(8, Remask::Confidence, None) };
    let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
    let mut again = [0.0; 2];
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            let parent = node.parent.map_or(MaskedSeq::empty(2), |id| states[&id].clone());
            // Where both are revealed, and the likely token stands at position 0.
            if parent.n_masked() == 0 && parent.get(0) == Some(0) {
                for &at in &node.remasked {
                    again[at] += 1.0;
                }
            }
            states.insert(node.id, placed(&parent, node));
        }
        ControlFlow::Continue(())
    };
    method.run(&problem(2, &table, &reward), Key::new(3), &mut observer).unwrap();
    let (ratio, expected) = (again[1] / again[0], (0.99f64 - 0.5).exp());
    // A few hundred of each: the ratio is known to a tenth.
    assert!(again[0] > 150.0, "{again:?}");
    assert!((ratio / expected - 1.0).abs() < 0.2, "{ratio}, not {expected}");
}

#[test]
fn a_sampler_that_masks_again_is_an_option_of_every_population() {
    let given = serde_json::json!({"sampler": "remdm", "steps": 9, "remask": "loop", "eta": 0.1});
    let given = given.as_object().unwrap();
    for name in ["bon", "fk", "svdd", "code", "pg", "dsearch"] {
        let none = serde_json::Map::new();
        let method = treasure_core::Method::from_options(name, &none, given).unwrap();
        assert_eq!(method.options()["remask"], "loop", "{name}");
        let json = serde_json::to_value(&method).unwrap();
        assert_eq!(serde_json::from_value::<treasure_core::Method>(json).unwrap(), method);
    }
    let wrong = BestOfN { particles: 1, sampler: remdm(3, Remask::Cap, Some(0.0)) };
    assert_eq!(wrong.check().unwrap_err().to_string(), "eta: expected a number in (0, 1], got 0");
}
