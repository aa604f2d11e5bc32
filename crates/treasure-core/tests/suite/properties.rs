//! Properties of sequences, schedules, widths, names and ties.

use std::ops::ControlFlow;

use proptest::prelude::*;
use treasure_core::{
    Bans, Event, Key, MaskedSeq, NoiseSchedule, Potential, Resampling, Schedule, SelectKind,
    ValueKind, Width,
    methods::{Search, Treasure},
};
use treasure_testkit::{FnReward, JointTable};

use crate::common::problem;

fn slots() -> impl Strategy<Value = Vec<Option<u32>>> {
    prop::collection::vec(prop::option::of(0u32..50), 0..20)
}

fn schedule() -> impl Strategy<Value = NoiseSchedule> {
    prop_oneof![
        (0.0..0.5f64).prop_map(|eps| NoiseSchedule::LogLinear { eps }),
        (0.0..0.5f64).prop_map(|eps| NoiseSchedule::Cosine { eps }),
        (0.0..0.5f64).prop_map(|eps| NoiseSchedule::CosineSquared { eps }),
        (0.0..0.5f64, 0.6..9.0f64).prop_map(|(min, max)| NoiseSchedule::Linear { min, max }),
        (1e-4..0.5f64, 0.6..9.0f64).prop_map(|(min, max)| NoiseSchedule::Geometric { min, max }),
    ]
}

fn width() -> impl Strategy<Value = Width> {
    let n = 1usize..40;
    prop_oneof![
        n.clone().prop_map(Width::Constant),
        (n.clone(), n.clone()).prop_map(|(from, to)| Width::Linear { from, to }),
        (n.clone(), n.clone()).prop_map(|(from, to)| Width::Cosine { from, to }),
        prop::collection::vec(n, 1..6).prop_map(Width::List),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_sequence_always_knows_its_masks(slots in slots()) {
        let seq = MaskedSeq::from_slots(slots.clone());
        prop_assert_eq!(seq.slots().collect::<Vec<_>>(), slots.clone());
        prop_assert_eq!(seq.n_masked(), slots.iter().filter(|slot| slot.is_none()).count());
        prop_assert_eq!(seq.masked().count(), seq.n_masked());
        prop_assert_eq!(seq.complete().is_some(), seq.n_masked() == 0);
        prop_assert_eq!(MaskedSeq::template(slots).unwrap(), seq);
    }

    #[test]
    fn revealing_changes_one_position_and_completing_keeps_the_rest(slots in slots(), token in 0u32..50) {
        let seq = MaskedSeq::from_slots(slots);
        for position in seq.masked() {
            let child = seq.reveal(position, token);
            prop_assert_eq!(child.n_masked() + 1, seq.n_masked());
            for at in 0..seq.len() {
                let expected = if at == position { Some(token) } else { seq.get(at) };
                prop_assert_eq!(child.get(at), expected);
            }
            prop_assert!(Key::new(1).fold_seq(&child) != Key::new(1).fold_seq(&seq));
        }
        let tokens = seq.complete_with(std::iter::repeat_n(token, seq.n_masked()));
        for (slot, filled) in seq.slots().zip(tokens) {
            prop_assert_eq!(slot.unwrap_or(token), filled);
        }
    }

    #[test]
    fn alpha_falls_and_its_inverse_undoes_it(schedule in schedule(), a in 0.0..1.0f64, b in 0.0..1.0f64) {
        let (s, t) = (a.min(b), a.max(b));
        prop_assert!(schedule.alpha(s) >= schedule.alpha(t) - 1e-12);
        prop_assert!((0.0..=1.0).contains(&schedule.alpha(t)));
        prop_assert!((schedule.alpha_inv(schedule.alpha(t)) - t).abs() < 1e-6);
        prop_assert!((0.0..=1.0).contains(&schedule.alpha_inv(a)));
    }

    #[test]
    fn the_inverse_is_clamped_beyond_the_range_of_alpha(schedule in schedule()) {
        prop_assert_eq!(schedule.alpha_inv(1.0), 0.0);
        prop_assert_eq!(schedule.alpha_inv(0.0), 1.0);
        let top = schedule.alpha(0.0);
        prop_assert!(schedule.alpha_inv(top + (1.0 - top) / 2.0) <= 1e-7);
    }

    #[test]
    fn reveal_probabilities_compose(schedule in schedule(), mut times in prop::array::uniform3(0.001..1.0f64)) {
        times.sort_by(f64::total_cmp);
        let [r, s, t] = times;
        prop_assume!(schedule.alpha(r) < 1.0 - 1e-9);
        let stay = |a, b| 1.0 - schedule.reveal_prob(a, b);
        prop_assert!((stay(r, t) - stay(s, t) * stay(r, s)).abs() < 1e-9);
        prop_assert!((0.0..=1.0).contains(&schedule.reveal_prob(s, t)));
    }

    #[test]
    fn the_next_event_comes_earlier_in_time(schedule in schedule(), n in 1usize..200, t in 0.01..1.0f64, u in 0.0001..0.9999f64) {
        let next = schedule.next_event(n, t, u);
        prop_assert!((0.0..=t + 1e-9).contains(&next), "{next} after {t}");
        if let NoiseSchedule::LogLinear { .. } = schedule {
            prop_assert!((next - t * u.powf(1.0 / n as f64)).abs() < 1e-9);
        }
    }

    #[test]
    fn schedules_and_widths_read_what_they_write(schedule in schedule(), width in width()) {
        prop_assert_eq!(schedule.to_string().parse::<NoiseSchedule>().unwrap(), schedule);
        prop_assert_eq!(width.to_string().parse::<Width>().unwrap(), width);
    }

    #[test]
    fn a_width_stays_between_its_ends(width in width(), steps in 1usize..50) {
        let (low, high) = match &width {
            Width::Constant(n) => (*n, *n),
            Width::Linear { from, to } | Width::Cosine { from, to } => (*from.min(to), *from.max(to)),
            Width::List(all) => (*all.iter().min().unwrap(), *all.iter().max().unwrap()),
        };
        for step in 0..steps + 3 {
            prop_assert!((low..=high).contains(&width.at(step, steps)));
        }
    }

    #[test]
    fn bans_name_each_forbidden_token_once(bans in prop::collection::vec((0u32..6, prop::option::of(0usize..6)), 0..8), position in 0usize..6) {
        let mut built = Bans::none();
        for &(token, before) in &bans {
            built = match before { Some(end) => built.before(token, end), None => built.everywhere(token) };
        }
        let mut expected: Vec<u32> = bans.iter()
            .filter(|(_, before)| before.is_none_or(|end| position < end))
            .map(|(token, _)| *token).collect();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(built.at(position), expected);
    }

    #[test]
    fn ties_go_by_token_rank_then_parent_then_token_id(seed in 0u64..10_000, m in 1usize..7) {
        // A reward that sees nothing: every choice of the search is a tie.
        let table = JointTable::random(3, 4, Key::new(seed).fold(1));
        let blind = FnReward::new("blind", |_| 0.0);
        let mut steps: Vec<Vec<(bool, usize, usize, u32)>> = Vec::new();
        let mut observer = |event: &Event| {
            match event {
                Event::Node(node) if node.step.is_some() && node.reason != Some(treasure_core::PruneReason::Duplicate) => {
                    let step = node.step.unwrap();
                    steps.resize(steps.len().max(step + 1), Vec::new());
                    steps[step].push((!node.kept, node.rank, node.parent_slot.unwrap(), node.token.unwrap()));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        Treasure::new(3, m).run(&problem(4, &table, &blind), Key::new(seed), &mut observer).unwrap();
        for step in steps {
            let order = |kept: bool| step.iter().filter(move |node| node.0 != kept).map(|node| (node.1, node.2, node.3));
            let worst_kept = order(true).max().unwrap();
            if let Some(best_pruned) = order(false).min() {
                prop_assert!(worst_kept < best_pruned, "{worst_kept:?} kept, {best_pruned:?} pruned");
            }
        }
    }
}

#[test]
fn widths_mean_first_to_last_step() {
    let at = |text: &str, steps| -> Vec<usize> {
        let width: Width = text.parse().unwrap();
        (0..steps).map(|step| width.at(step, steps)).collect()
    };
    assert_eq!(at("5", 3), [5, 5, 5]);
    assert_eq!(at("linear:8..2", 4), [8, 6, 4, 2]);
    assert_eq!(at("linear:8..2", 1), [8]);
    assert_eq!(at("cosine:8..2", 5), [8, 7, 5, 3, 2]);
    assert_eq!(at("8,8,4", 5), [8, 8, 4, 4, 4]);
    for bad in ["", "0", "-1", "linear:3", "cubic:1..2", "3,,4", "2,0", "linear:0..3", "5.5", "a"] {
        let error = bad.parse::<Width>().unwrap_err().to_string();
        assert!(error.starts_with("width: expected"), "{bad}: {error}");
    }
}

#[test]
fn widths_follow_the_masks_left_in_the_search() {
    let table = JointTable::random(4, 4, Key::new(1));
    let reward = treasure_testkit::TableReward::random(4, 4, Key::new(2));
    let method = Treasure {
        beam_width: "4,3,2,1".parse().unwrap(),
        tree_width: "linear:4..1".parse().unwrap(),
        ..Treasure::default()
    };
    let mut sizes = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Step(step) = event {
            sizes.push((step.children, step.population));
        }
        ControlFlow::Continue(())
    };
    method.run(&problem(4, &table, &reward), Key::new(1), &mut observer).unwrap();
    assert_eq!(sizes, [(4, 4), (12, 3), (6, 2), (2, 1)]);
}

#[test]
fn names_of_options_are_read_as_they_are_written() {
    for value in ValueKind::ALL {
        assert_eq!(value.to_string().parse::<ValueKind>().unwrap(), *value);
    }
    for select in SelectKind::ALL {
        assert_eq!(select.to_string().parse::<SelectKind>().unwrap(), *select);
    }
    for potential in Potential::ALL {
        assert_eq!(potential.to_string().parse::<Potential>().unwrap(), *potential);
    }
    for resampling in Resampling::ALL {
        assert_eq!(resampling.to_string().parse::<Resampling>().unwrap(), *resampling);
    }
    assert_eq!(
        "best".parse::<SelectKind>().unwrap_err().to_string(),
        "select: expected top, nested, got \"best\""
    );
    for (name, schedule) in [
        ("loglinear", NoiseSchedule::LogLinear { eps: 1e-3 }),
        ("cosine", NoiseSchedule::Cosine { eps: 1e-3 }),
        ("cosine-squared", NoiseSchedule::CosineSquared { eps: 1e-3 }),
        ("linear", NoiseSchedule::Linear { min: 1e-3, max: 7.0 }),
        ("geometric", NoiseSchedule::Geometric { min: 1e-3, max: 1.0 }),
    ] {
        assert_eq!(name.parse::<NoiseSchedule>().unwrap(), schedule);
    }
}

#[test]
fn uniform_numbers_are_uniform_and_integers_stay_below() {
    let n = 20_000u64;
    let mut counts = [0u64; 10];
    let mut ints = [0u64; 7];
    for i in 0..n {
        let u = Key::new(5).fold(i).uniform();
        assert!(u > 0.0 && u < 1.0);
        counts[(u * 10.0) as usize] += 1;
        ints[Key::new(6).fold(i).below(7)] += 1;
    }
    assert!(treasure_testkit::exact::chi_square_z(&counts, &[0.1; 10]).abs() < 4.0);
    assert!(treasure_testkit::exact::chi_square_z(&ints, &[1.0 / 7.0; 7]).abs() < 4.0);
}
