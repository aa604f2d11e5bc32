//! Options that are off by default: off equals absent, on does what it says.

use std::ops::ControlFlow;

use treasure_core::{
    Event, Key, PruneReason, Silent,
    methods::{Search, Treasure},
};
use treasure_testkit::{FnReward, JointTable, TableReward};

use crate::common::{problem, run};

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 5, Key::new(1)), TableReward::random(3, 5, Key::new(2)))
}

#[test]
fn a_commit_threshold_no_prediction_reaches_changes_nothing() {
    // Every conditional of this table is below one half.
    let table = JointTable::new(3, 4, &[1.0; 81]);
    let reward = TableReward::random(3, 4, Key::new(2));
    for seed in 0..10 {
        let off = run(&Treasure::new(3, 2), &problem(4, &table, &reward), seed);
        let on = Treasure { commit_threshold: Some(0.9), ..Treasure::new(3, 2) };
        assert_eq!(run(&on, &problem(4, &table, &reward), seed), off);
    }
}

#[test]
fn a_commit_threshold_commits_sure_masks_and_saves_forward_passes() {
    // Positions 1 and 3 are nearly certain.
    let sure = vec![0.97, 0.02, 0.01];
    let open = vec![0.4, 0.35, 0.25];
    let table = JointTable::product(&[open.clone(), sure.clone(), open.clone(), sure, open]);
    let reward = FnReward::new("sum", |x| x.iter().map(|&token| f64::from(token)).sum());
    let off = run(&Treasure::new(2, 2), &problem(5, &table, &reward), 1);
    let method = Treasure { commit_threshold: Some(0.9), ..Treasure::new(2, 2) };
    let mut also = 0;
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            also += node.also.len();
            assert!(
                node.also.iter().all(|&(position, token)| [1, 3].contains(&position) && token == 0)
            );
        }
        ControlFlow::Continue(())
    };
    let on = method.run(&problem(5, &table, &reward), Key::new(1), &mut observer).unwrap();
    assert!(also > 0);
    assert!(on.cost.nfe < off.cost.nfe, "{:?} against {:?}", on.cost, off.cost);
    assert!(on.steps < off.steps);
    assert_eq!(on.reward.unwrap(), on.tokens.iter().map(|&token| f64::from(token)).sum::<f64>());
}

#[test]
fn a_screen_that_lets_everything_through_gives_the_same_answer() {
    let (table, reward) = parts();
    let proxy = FnReward::new("proxy", |x| f64::from(x[0]));
    for seed in 0..10 {
        let off = run(&Treasure::new(3, 2), &problem(5, &table, &reward), seed);
        let method = Treasure { screen: Some(1.0), ..Treasure::new(3, 2) };
        let on = run(&method, &problem(5, &table, &reward).with_proxy(&proxy), seed);
        assert_eq!((&on.tokens, on.reward), (&off.tokens, off.reward));
        assert_eq!(on.cost.reward_requests(), off.cost.reward_requests());
        assert!(on.cost.proxy_calls > 0);
        let unused =
            run(&Treasure::new(3, 2), &problem(5, &table, &reward).with_proxy(&proxy), seed);
        assert_eq!(unused, off, "a proxy without a screen changes nothing");
    }
}

#[test]
fn a_screen_scores_only_the_best_share_exactly() {
    let (table, reward) = parts();
    let proxy = TableReward::new(3, reward.values().to_vec());
    let method = Treasure { screen: Some(0.4), ..Treasure::new(3, 2) };
    let mut screened = 0;
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event
            && node.reason == Some(PruneReason::Screened)
        {
            assert_eq!(node.value, None);
            screened += 1;
        }
        ControlFlow::Continue(())
    };
    let problem_with = problem(5, &table, &reward).with_proxy(&proxy);
    let on = method.run(&problem_with, Key::new(1), &mut observer).unwrap();
    // 2 of the 3 children of each parent: one at the first step, two at each of the others.
    assert_eq!(on.cost.reward_requests(), 2 + 4 * 4);
    assert_eq!(screened, 1 + 4 * 2);
    // A perfect proxy loses nothing.
    let off = run(&Treasure::new(3, 2), &problem(5, &table, &reward), 1);
    assert_eq!((on.tokens, on.reward), (off.tokens, off.reward));
}

#[test]
fn a_screen_does_not_count_what_another_node_lets_through() {
    // Two sequences of each node pass: a population doubles until it is as wide as the tree.
    let mut doubled = 0;
    for seed in 0..300 {
        let table = JointTable::random(3, 5, Key::new(seed).fold(1));
        let reward = TableReward::random(3, 5, Key::new(seed).fold(2));
        let proxy = TableReward::random(3, 5, Key::new(seed).fold(3));
        let method = Treasure { screen: Some(0.2), groups: 2, ..Treasure::new(3, 4) };
        let mut before = 1;
        let mut observer = |event: &Event| {
            if let Event::Step(step) = event {
                let enough = (2 * before).min(4).min(step.distinct);
                assert!(step.population >= enough, "seed {seed}: {step:?} after {before}");
                doubled += usize::from(before == 2 && step.children > step.distinct);
                before = step.population;
            }
            ControlFlow::Continue(())
        };
        let problem = problem(5, &table, &reward).with_proxy(&proxy);
        method.run(&problem, Key::new(seed), &mut observer).unwrap();
    }
    assert!(doubled > 20, "two nodes had equal children {doubled} times");
}

#[test]
fn a_screen_without_a_proxy_is_refused() {
    let (table, reward) = parts();
    let method = Treasure { screen: Some(0.5), ..Treasure::new(3, 2) };
    let error = method.run(&problem(5, &table, &reward), Key::new(1), &mut Silent).unwrap_err();
    assert_eq!(
        error.to_string(),
        "screen: expected a proxy reward (Problem::with_proxy), got none"
    );
}

#[test]
fn plans_hold_every_option_after_defaults() {
    let plan = Treasure::default().plan();
    let expected = serde_json::json!({
        "beam_width": 5, "tree_width": 2, "groups": 1, "value": "resubstitute", "select": "top",
        "x0_samples": 4, "commit_threshold": null, "screen": null,
    });
    assert_eq!(plan, expected);
    let plan = treasure_core::methods::FkSteering::default().plan();
    let expected = serde_json::json!({
        "particles": 4, "sampler": "ancestral", "steps": 1000, "lambda": 10.0, "potential": "diff",
        "resample_every": null, "resample": "multinomial", "ess": null, "x0_samples": 4,
    });
    assert_eq!(plan, expected);
}
