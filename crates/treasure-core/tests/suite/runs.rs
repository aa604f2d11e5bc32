//! A run as a value: driven from outside, left early, nested, with its tree.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use treasure_core::{
    Error, Key, Limits, MaskedSeq, Method, Progress, Result, Reward, Sampler, Search as _, Silent,
    StopReason, View, given_up,
    methods::{BestOfN, Greedy, Treasure},
};
use treasure_testkit::{JointTable, TableReward};

use crate::common::{limited, problem};

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 5, Key::new(1)), TableReward::random(3, 5, Key::new(2)))
}

#[test]
fn a_run_driven_step_by_step_is_the_run() {
    let (table, reward) = parts();
    let method = Treasure::new(3, 2);
    let problem = problem(5, &table, &reward);
    let whole = method.run(&problem, Key::new(3), &mut Silent).unwrap();
    let mut silent = Silent;
    let mut run = problem.run(&method, Key::new(3), &mut silent).unwrap();
    let mut masks = Vec::new();
    while run.step().unwrap() == Progress::More {
        masks.push(run.nodes()[0].seq.n_masked());
    }
    assert_eq!(run.step().unwrap(), Progress::Done, "a finished run stays finished");
    assert_eq!(masks, [4, 3, 2, 1]);
    assert_eq!(run.finish().unwrap(), whole);
}

#[test]
fn a_run_that_is_left_early_hands_back_its_best() {
    let (table, reward) = parts();
    let problem = problem(5, &table, &reward);
    let mut silent = Silent;
    let mut run = problem.run(&Treasure::new(3, 2), Key::new(3), &mut silent).unwrap();
    assert_eq!(run.step().unwrap(), Progress::More);
    let best = run.best().unwrap();
    let found = run.finish().unwrap();
    assert_eq!((found.stopped, found.steps), (Some(StopReason::Caller), 1));
    assert_eq!((found.tokens, found.reward), (best.tokens, Some(best.reward)));
}

#[test]
fn cancellation_keeps_the_best_so_far() {
    let (table, reward) = parts();
    let cancel = AtomicBool::new(false);
    let limits = Limits { cancel: Some(&cancel), ..Limits::default() };
    let problem = limited(5, &table, &reward, limits);
    let mut silent = Silent;
    let mut run = problem.run(&Treasure::new(3, 2), Key::new(3), &mut silent).unwrap();
    run.step().unwrap();
    cancel.store(true, Ordering::Relaxed);
    assert_eq!(run.step().unwrap(), Progress::Done);
    let best = run.best().unwrap();
    let found = run.finish().unwrap();
    assert_eq!(found.stopped, Some(StopReason::Cancelled));
    assert_eq!(found.tokens, best.tokens);
}

/// A reward that, from its second call on, works until nobody waits for it.
struct Endless<'a>(&'a TableReward, AtomicUsize);

impl Reward for Endless<'_> {
    fn name(&self) -> &str {
        "endless"
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        if self.1.fetch_add(1, Ordering::Relaxed) > 0 {
            while !given_up() {
                std::thread::yield_now();
            }
            return Err(Error::GivenUp { whose: "endless".into() });
        }
        self.0.score(batch)
    }
}

#[test]
fn a_call_that_is_under_way_is_given_up_and_the_best_so_far_is_kept() {
    let (table, inner) = parts();
    let reward = Endless(&inner, AtomicUsize::new(0));
    let cancel = AtomicBool::new(false);
    let limits = Limits { cancel: Some(&cancel), ..Limits::default() };
    let problem = limited(5, &table, &reward, limits);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while reward.1.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            cancel.store(true, Ordering::Relaxed);
        });
        Treasure::new(3, 2).run(&problem, Key::new(3), &mut Silent).unwrap()
    });
    assert_eq!((found.stopped, found.steps), (Some(StopReason::Cancelled), 1));
    assert_eq!(found.cost.reward_calls, 3, "what was given up is not counted");
    assert_eq!(found.reward, Some(found.best_seen.unwrap().reward));
}

#[test]
fn runs_nest_their_costs_add_up_and_budgets_hold_across() {
    let (table, reward) = parts();
    let limits = Limits { max_nfe: Some(7), ..Limits::default() };
    let outer = limited(5, &table, &reward, limits);
    let first = Greedy::default().run(&outer, Key::new(1), &mut Silent).unwrap();
    assert_eq!(first.cost.nfe, 5);
    // Remask two positions of the answer and search again inside the same run.
    let state = MaskedSeq::from_slots(first.tokens.iter().map(|&token| Some(token))).remask([1, 3]);
    let inner = outer.continue_from(state);
    let second = Treasure::new(2, 1).run(&inner, Key::new(2), &mut Silent).unwrap();
    assert!(second.cost.nfe > first.cost.nfe && second.cost.nfe <= 7);
    assert_eq!(outer.cost(), second.cost, "one ledger");
    assert!(second.best_seen.unwrap().reward >= first.reward.unwrap());
    let third = Treasure::new(2, 2)
        .run(&outer.continue_from(MaskedSeq::empty(5)), Key::new(9), &mut Silent)
        .unwrap();
    assert_eq!(third.stopped, Some(StopReason::MaxNfe), "the budget holds across");
}

#[test]
fn the_whole_tree_comes_back_when_asked_for() {
    let (table, reward) = parts();
    let problem = problem(5, &table, &reward);
    let mut silent = Silent;
    let mut run = problem.run(&Treasure::new(2, 2), Key::new(3), &mut silent).unwrap().with_tree();
    while run.step().unwrap() == Progress::More {}
    let found = run.finish().unwrap();
    let tree = found.tree.unwrap();
    assert!(tree.iter().enumerate().all(|(i, node)| node.id == i as u64));
    assert_eq!(tree.iter().filter(|node| node.step == Some(4) && node.kept).count(), 2);
}

#[test]
fn a_method_is_data() {
    let method = Method::from(Treasure::new(8, 6));
    let json = serde_json::to_value(&method).unwrap();
    assert_eq!((&json["method"], &json["beam_width"]), (&"treasure".into(), &8.into()));
    assert_eq!(serde_json::from_value::<Method>(json).unwrap(), method);
    for name in Method::NAMES {
        let method = Method::named(name).unwrap();
        assert_eq!(method.name(), *name);
        assert!(method.search().check().is_ok(), "{name}");
        assert!(method.search().nominal_cost(48).nfe > 0, "{name}");
        let json = serde_json::to_value(&method).unwrap();
        assert_eq!(serde_json::from_value::<Method>(json).unwrap(), method, "{name}");
    }
    assert!(Method::named("nonsense").is_none());
}

#[test]
fn options_make_a_method_or_say_what_is_wrong() {
    let map = |value: serde_json::Value| value.as_object().unwrap().clone();
    let none = serde_json::Map::new();
    let made = |name: &str, given| Method::from_options(name, &none, &map(given));
    let bon = made("bon", serde_json::json!({"particles": 9, "sampler": "first-hitting"}));
    let expected = BestOfN { particles: 9, sampler: Sampler::FirstHitting };
    assert_eq!(bon.unwrap(), Method::Bon(expected));
    let useless = made("greedy", serde_json::json!({"particles": 9})).unwrap_err();
    assert_eq!(useless.to_string(), "particles: method greedy has no use for it");
    let steps = serde_json::json!({"sampler": "first-hitting", "steps": 5});
    assert!(matches!(made("bon", steps), Err(Error::NoUse { option, .. }) if option == "steps"));
    let wrong = made("treasure", serde_json::json!({"beam_width": "many"})).unwrap_err();
    assert!(wrong.to_string().starts_with("beam_width: "), "{wrong}");
    let zero = made("treasure", serde_json::json!({"groups": 0})).unwrap_err();
    assert_eq!(zero.to_string(), "groups: expected at least 1, got 0");
    assert!(made("nonsense", serde_json::json!({})).unwrap_err().to_string().contains("treasure"));
    assert!(Method::with_option("lambda").contains(&"fk"));
}
