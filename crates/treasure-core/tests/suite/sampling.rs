//! Samplers against the joint they sample from. Statistical tests: fixed seeds, bounds from theory.

use treasure_core::{
    Bans, Key, Limits, MaskedSeq, NoiseSchedule, Problem, Sampler, Silent,
    methods::{Base, BestOfN, Fhs, Greedy, Search, Svdd, Treasure},
};
use treasure_testkit::{FnReward, JointTable, TableReward, exact};

use crate::common::{EXACT, problem, run};

fn counts(method: &dyn Search, table: &JointTable, len: usize, samples: u64) -> Vec<u64> {
    let reward = FnReward::new("zero", |_| 0.0);
    let problem = problem(len, table, &reward);
    let mut counts = vec![0; table.probs().len()];
    for sample in 0..samples {
        let key = Key::new(7).fold(sample);
        let outcome = method.run(&problem, key, &mut Silent).expect("a sample");
        counts[exact::index(table.tokens(), &outcome.tokens)] += 1;
    }
    counts
}

#[test]
fn first_hitting_samples_follow_the_joint() {
    let table = JointTable::random(3, 3, Key::new(11));
    let counts = counts(&Fhs {}, &table, 3, 20_000);
    let z = exact::chi_square_z(&counts, table.probs());
    assert!(z.abs() < 4.0, "χ² is {z} standard deviations off");
}

#[test]
fn ancestral_sampling_converges_to_the_joint_as_steps_grow() {
    // A strongly coupled joint: all tokens equal, nearly always.
    let weights: Vec<f64> = exact::sequences(2, 3)
        .map(|x| if x.iter().all(|token| *token == x[0]) { 1.0 } else { 0.01 })
        .collect();
    let table = JointTable::new(2, 3, &weights);
    let samples = 6000;
    let distance = |steps| {
        let counts = counts(&Base { steps }, &table, 3, samples);
        let share: Vec<f64> = counts.iter().map(|&n| n as f64 / samples as f64).collect();
        exact::total_variation(&share, table.probs())
    };
    let (one, four, many) = (distance(1), distance(4), distance(64));
    assert!(one > 0.5, "one step ignores the coupling: {one}");
    assert!(four < one && many < four, "{one} > {four} > {many}");
    // Two of three masks meet in one of 64 steps with probability about 3/64.
    assert!(many < 0.05, "{many}");
}

#[test]
fn ancestral_sampling_is_exact_in_any_number_of_steps_if_positions_are_independent() {
    let table = JointTable::product(&[vec![0.2, 0.3, 0.5], vec![0.6, 0.1, 0.3]]);
    for steps in [1, 3] {
        let counts = counts(&Base { steps }, &table, 2, 10_000);
        let z = exact::chi_square_z(&counts, table.probs());
        assert!(z.abs() < 4.0, "{steps} steps: χ² is {z} standard deviations off");
    }
}

#[test]
fn bans_sample_from_the_joint_conditioned_position_by_position() {
    let table = JointTable::product(&[vec![0.2, 0.3, 0.5], vec![0.6, 0.1, 0.3]]);
    let reward = FnReward::new("zero", |_| 0.0);
    let bans = Bans::none().everywhere(2).before(0, 1);
    let start = MaskedSeq::empty(2);
    let problem = Problem::new(start, &EXACT, &table, &reward, bans, Limits::default()).unwrap();
    let mut counts = [0u64; 2];
    for sample in 0..4000 {
        let method = Fhs {};
        let outcome = method.run(&problem, Key::new(3).fold(sample), &mut Silent).unwrap();
        assert_eq!(outcome.tokens[0], 1, "0 is banned before position 1, 2 everywhere");
        counts[outcome.tokens[1] as usize] += 1;
    }
    let z = exact::chi_square_z(&counts, &[0.6 / 0.7, 0.1 / 0.7]);
    assert!(z.abs() < 4.0, "{z}");
}

#[test]
fn best_of_n_has_the_enumerated_expected_maximum() {
    let table = JointTable::random(3, 2, Key::new(5));
    let reward = TableReward::random(3, 2, Key::new(6));
    for (n, sampler) in [(1, Sampler::FirstHitting), (4, Sampler::FirstHitting)] {
        let problem = problem(2, &table, &reward);
        let method = BestOfN { particles: n, sampler };
        let samples = 4000;
        let rewards: Vec<f64> = (0..samples)
            .map(|sample| {
                let key = Key::new(9).fold(sample);
                method.run(&problem, key, &mut Silent).unwrap().reward.unwrap()
            })
            .collect();
        let mean = rewards.iter().sum::<f64>() / samples as f64;
        let spread = rewards.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / samples as f64;
        let error = (spread / samples as f64).sqrt();
        let expected = exact::expected_max(table.probs(), reward.values(), n as u32);
        assert!((mean - expected).abs() < 4.0 * error, "N = {n}: {mean} ± {error}, not {expected}");
    }
}

#[test]
fn a_prompt_a_suffix_and_a_template_stay_as_they_were_given() {
    let table = JointTable::random(3, 5, Key::new(1));
    let reward = TableReward::random(3, 5, Key::new(2));
    let starts = [
        MaskedSeq::with_prompt(&[2, 1], 5).unwrap(),
        MaskedSeq::template([Some(2), None, None, Some(0), Some(1)]).unwrap(),
        MaskedSeq::template([None, Some(1), None, Some(0), None]).unwrap(),
    ];
    let methods: [&dyn Search; 3] = [&Treasure::new(2, 2), &Base { steps: 4 }, &Svdd::default()];
    for start in starts {
        for method in methods {
            let problem = Problem::new(
                start.clone(),
                &EXACT,
                &table,
                &reward,
                Bans::none(),
                Limits::default(),
            )
            .unwrap();
            let outcome = run(method, &problem, 1);
            for (slot, token) in start.slots().zip(&outcome.tokens) {
                assert!(slot.is_none_or(|given| given == *token));
            }
            assert_eq!(outcome.reward, Some(reward.of(&outcome.tokens)));
        }
    }
}

#[test]
fn greedy_walks_the_path_of_a_tree_with_one_token_and_one_node() {
    let table = JointTable::random(3, 5, Key::new(21));
    let reward = TableReward::random(3, 5, Key::new(22));
    for seed in 0..20 {
        let greedy = run(&Greedy::default(), &problem(5, &table, &reward), seed);
        let tree = run(&Treasure::new(1, 1), &problem(5, &table, &reward), seed);
        assert_eq!(greedy.tokens, tree.tokens);
        assert_eq!(greedy.cost.reward_calls, 1);
    }
}

#[test]
fn best_of_one_is_the_base_sampler() {
    let table = JointTable::random(3, 4, Key::new(31));
    let reward = TableReward::random(3, 4, Key::new(32));
    let both: [(Sampler, &dyn Search); 2] =
        [(Sampler::FirstHitting, &Fhs {}), (Sampler::Ancestral { steps: 6 }, &Base { steps: 6 })];
    for (sampler, alone) in both {
        for seed in 0..10 {
            let one = run(&BestOfN { particles: 1, sampler }, &problem(4, &table, &reward), seed);
            let base = run(alone, &problem(4, &table, &reward), seed);
            assert_eq!(one.tokens, base.tokens);
        }
    }
}

#[test]
fn best_of_n_contains_the_base_sample_as_its_first_slot() {
    let table = JointTable::random(3, 4, Key::new(41));
    let reward = TableReward::random(3, 4, Key::new(42));
    let sampler = Sampler::FirstHitting;
    let many = run(&BestOfN { particles: 5, sampler }, &problem(4, &table, &reward), 3);
    let base = run(&Fhs {}, &problem(4, &table, &reward), 3);
    assert_eq!(many.finals[0].tokens, base.tokens);
    let best = many.finals.iter().map(|particle| particle.value).fold(f64::MIN, f64::max);
    assert_eq!(many.reward, Some(best));
}

#[test]
fn ancestral_sampling_ends_complete_where_alpha_at_zero_is_below_one() {
    let table = JointTable::product(&[vec![0.2, 0.8], vec![0.5, 0.5], vec![0.9, 0.1]]);
    let reward = FnReward::new("zero", |_| 0.0);
    let schedule: NoiseSchedule = "linear:1..3".parse().unwrap();
    let start = MaskedSeq::empty(3);
    let problem =
        Problem::new(start, &schedule, &table, &reward, Bans::none(), Limits::default()).unwrap();
    let mut counts = vec![0u64; 8];
    for sample in 0..3000 {
        let method = Base { steps: 3 };
        let outcome = method.run(&problem, Key::new(5).fold(sample), &mut Silent).unwrap();
        counts[exact::index(2, &outcome.tokens)] += 1;
    }
    let z = exact::chi_square_z(&counts, table.probs());
    assert!(z.abs() < 4.0, "{z}");
}
