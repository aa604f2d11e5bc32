//! Options that are off by default: off equals absent, on does what it says.

use std::{ops::ControlFlow, sync::Mutex};

use treasure_core::{
    Answer, Denoiser, Encoding, Event, Facts, Key, PruneReason, Question, Result, Silent, State,
    StopReason,
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
fn a_search_ends_once_predictions_have_agreed_for_as_many_steps_as_asked_for() {
    // Positions do not depend on each other, so that no prediction ever changes.
    let row = vec![0.5, 0.3, 0.2];
    let table = JointTable::product(&vec![row; 6]);
    let reward = FnReward::new("sum", |x| x.iter().map(|&token| f64::from(token)).sum());
    let off = run(&Treasure::new(2, 2), &problem(6, &table, &reward), 1);
    for settle in 1..=6 {
        let method = Treasure { settle: Some(settle), ..Treasure::new(2, 2) };
        let on = run(&method, &problem(6, &table, &reward), 1);
        if settle == 6 {
            assert_eq!(on, off, "no sixth step has one before it");
            continue;
        }
        assert_eq!((on.stopped, on.steps), (Some(StopReason::Settled), settle));
        assert_eq!(
            on.cost.nfe_requests() as usize,
            1 + 2 * settle,
            "the pass that agrees is the last"
        );
        assert_eq!(
            on.reward.unwrap(),
            on.tokens.iter().map(|&token| f64::from(token)).sum::<f64>()
        );
    }
}

#[test]
fn predictions_that_change_do_not_end_a_search() {
    // Each token is that of the position before it, so that one revealed token changes every other prediction.
    let mut joint = vec![1e-9; 81];
    (joint[0], joint[40], joint[80]) = (0.34, 0.33, 0.33);
    let table = JointTable::new(3, 4, &joint);
    let reward = FnReward::new("sum", |x| x.iter().map(|&token| f64::from(token)).sum());
    let method = Treasure { settle: Some(1), ..Treasure::new(3, 1) };
    let on = run(&method, &problem(4, &table, &reward), 1);
    assert_eq!((on.tokens, on.stopped), (vec![2; 4], Some(StopReason::Settled)));
    assert_eq!(
        on.steps, 2,
        "the first reveals, the second sees that it settled all, the third agrees"
    );
}

/// A denoiser that claims to go on from earlier passes, and remembers when it was asked to.
struct Keeping {
    table: JointTable,
    asked: Mutex<Vec<Vec<Option<usize>>>>,
}

impl Denoiser for Keeping {
    fn facts(&self) -> &Facts {
        self.table.facts()
    }

    fn encode(&self, _: &[State<'_>]) -> Result<Vec<Encoding>> {
        panic!("a search that reuses never asks without")
    }

    fn reuses(&self) -> bool {
        true
    }

    fn encode_after(
        &self,
        batch: &[State<'_>],
        before: &[Option<&Encoding>],
    ) -> Result<Vec<Encoding>> {
        assert_eq!(batch.len(), before.len());
        let bytes = before.iter().map(|before| before.map(Encoding::bytes)).collect();
        self.asked.lock().unwrap().push(bytes);
        self.table.encode(batch)
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        self.table.read(batch)
    }
}

#[test]
fn a_search_that_reuses_goes_on_from_its_parents_passes_except_every_so_many_steps() {
    let (table, reward) = parts();
    let off = run(&Treasure::new(3, 2), &problem(5, &table, &reward), 1);
    let keeping = Keeping { table, asked: Mutex::default() };
    let method = Treasure { reuse: Some(2), ..Treasure::new(3, 2) };
    // This one ignores what it goes on from, so that nothing else changes.
    assert_eq!(run(&method, &problem(5, &keeping, &reward), 1), off);
    let asked = keeping.asked.into_inner().unwrap();
    let from_before: Vec<bool> =
        asked.iter().map(|step| step.iter().all(|before| before.is_some())).collect();
    assert_eq!(from_before, [false, true, false, true, false]);
    let none = |step: &Vec<Option<usize>>| step.iter().all(Option::is_none);
    assert!(asked.iter().step_by(2).all(none), "{asked:?}");
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
