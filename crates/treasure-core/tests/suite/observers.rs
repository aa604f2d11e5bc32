//! Observers and traces.

use std::{collections::BTreeMap, io, ops::ControlFlow};

use treasure_core::{
    Error, Event, Key, MaskedSeq, PruneReason, Remask, Sampler, StopReason, TraceWriter,
    methods::{
        BestOfN, Dfs, Dsearch, Dts, DtsStar, Fhs, FkSteering, IterRef, NaiveTree, Pg, Policy,
        Refine, Search, Smc, Treasure, Treeg,
    },
};
use treasure_testkit::{JointTable, TableReward};

use crate::common::{problem, run};

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 4, Key::new(1)), TableReward::random(3, 4, Key::new(2)))
}

#[test]
fn an_observer_changes_nothing_but_may_stop() {
    let (table, reward) = parts();
    let silent = run(&Treasure::new(3, 2), &problem(4, &table, &reward), 1);
    let mut seen = 0;
    let mut observer = |_: &Event| {
        seen += 1;
        ControlFlow::Continue(())
    };
    let watched =
        Treasure::new(3, 2).run(&problem(4, &table, &reward), Key::new(1), &mut observer).unwrap();
    assert_eq!(watched, silent);
    // Start, root, 3 + 3 · 6 children, 4 steps, end.
    assert_eq!(seen, 1 + 1 + 21 + 4 + 1);
}

#[test]
fn an_observer_that_stops_at_step_0_gets_an_error_that_says_so() {
    let (table, reward) = parts();
    let mut observer = |_: &Event| ControlFlow::Break(());
    let error = Treasure::new(3, 2)
        .run(&problem(4, &table, &reward), Key::new(1), &mut observer)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "search: stopped by the observer after 0 steps with 4 masks left and nothing to show \
         (nfe 0, reward calls 0)"
    );
    assert!(matches!(error, Error::Stopped { reason: StopReason::Observer, .. }));
}

#[test]
fn break_stops_the_search_and_keeps_the_best_so_far() {
    let (table, reward) = parts();
    for method in [&Treasure::new(3, 2) as &dyn Search, &Fhs {}] {
        for after in 0..4 {
            let mut observer = |event: &Event| match event {
                Event::Step(step) if step.step == after => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            let outcome =
                method.run(&problem(4, &table, &reward), Key::new(1), &mut observer).unwrap();
            assert_eq!(outcome.stopped, Some(StopReason::Observer));
            assert_eq!(outcome.reward, Some(reward.of(&outcome.tokens)));
            assert_eq!(outcome.tokens.len(), 4);
            assert_eq!(outcome.reward, outcome.best_seen.map(|best| best.reward));
        }
    }
}

#[test]
fn a_trace_rebuilds_the_tree() {
    let (table, reward) = parts();
    let remdm = Sampler::Remdm { steps: 12, remask: Remask::Rescale, eta: Some(0.5) };
    let methods: [&dyn Search; 14] = [
        &Treasure { groups: 2, ..Treasure::new(3, 4) },
        &NaiveTree { steps: 8, ..NaiveTree::default() },
        &FkSteering { sampler: Sampler::Ancestral { steps: 8 }, ..FkSteering::default() },
        &BestOfN { particles: 3, sampler: remdm },
        &Smc::default(),
        &Pg::default(),
        &Dts { branch_every: 2, ..Dts::default() },
        &DtsStar::default(),
        &DtsStar { policy: Policy::Puct, iterations: 60, ..DtsStar::default() },
        &Dfs { look_every: 2, ..Dfs::default() },
        &Treeg::default(),
        &Dsearch { replace: 0.3, ..Dsearch::default() },
        &IterRef { refine_every: 2, ..IterRef::default() },
        &Refine::default(),
    ];
    for method in methods {
        let mut trace = TraceWriter::new(Vec::new());
        let outcome = method.run(&problem(4, &table, &reward), Key::new(1), &mut trace).unwrap();
        let text = String::from_utf8(trace.finish().unwrap()).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0], serde_json::json!({"schema": "treasure-trace", "version": 1}));
        assert_eq!(lines[1]["event"], "start");
        assert_eq!(lines[1]["method"], method.name());
        assert_eq!(lines[1]["plan"], method.plan());
        let mut states: BTreeMap<u64, MaskedSeq> = BTreeMap::new();
        let mut last_cost = 0;
        for node in lines.iter().filter(|line| line["event"] == "node") {
            let id = node["id"].as_u64().unwrap();
            let state = match node["parent"].as_u64() {
                None => MaskedSeq::empty(4),
                Some(parent) => {
                    assert!(parent < id, "a parent is told before its child");
                    let again = node["remasked"].as_array().into_iter().flatten();
                    let mut state =
                        states[&parent].remask(again.map(|at| at.as_u64().unwrap() as usize));
                    let pair = [(&node["position"], &node["token"])];
                    let also = node["also"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|pair| (&pair[0], &pair[1]));
                    for (position, token) in pair.into_iter().chain(also) {
                        if let (Some(position), Some(token)) = (position.as_u64(), token.as_u64()) {
                            state.reveal_in_place(position as usize, token as u32);
                        }
                    }
                    state
                }
            };
            assert_eq!(node["masks_left"].as_u64().unwrap() as usize, state.n_masked());
            assert_eq!(node["kept"].as_bool().unwrap(), node["reason"].is_null());
            assert_eq!(
                node["kept"].as_bool().unwrap(),
                !node["slots"].as_array().unwrap().is_empty()
            );
            assert!(node["tau"].as_f64().unwrap() <= 1.0);
            let cost = node["cost"]["nfe"].as_u64().unwrap();
            assert!(cost >= last_cost, "the cost so far never falls");
            last_cost = cost;
            assert!(states.insert(id, state).is_none(), "ids are unique");
        }
        assert!(states.values().any(|state| state.complete() == Some(&outcome.tokens)));
        let end = lines.last().unwrap();
        assert_eq!(end["event"], "end");
        assert_eq!(end["cost"]["nfe"].as_u64(), Some(outcome.cost.nfe));
        assert_eq!(end["reward"].as_f64(), outcome.reward);
    }
}

#[test]
fn pruned_nodes_say_why() {
    let (table, reward) = parts();
    let mut reasons = BTreeMap::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event
            && let Some(reason) = node.reason
        {
            *reasons.entry(format!("{reason:?}")).or_insert(0) += 1;
        }
        ControlFlow::Continue(())
    };
    let method = Treasure { groups: 4, ..Treasure::new(3, 6) };
    method.run(&problem(4, &table, &reward), Key::new(1), &mut observer).unwrap();
    assert!(reasons["Beaten"] > 0 && reasons["Duplicate"] > 0, "{reasons:?}");
    assert_eq!(reasons.len(), 2);
    let fk = FkSteering { sampler: Sampler::FirstHitting, particles: 6, ..FkSteering::default() };
    let mut reasons = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            reasons.extend(node.reason);
        }
        ControlFlow::Continue(())
    };
    fk.run(&problem(4, &table, &reward), Key::new(1), &mut observer).unwrap();
    assert!(!reasons.is_empty());
    assert!(reasons.iter().all(|reason| *reason == PruneReason::Resampled));
}

#[test]
fn children_of_a_step_that_a_budget_ended_are_told_as_stopped() {
    let (table, reward) = parts();
    let limits = treasure_core::Limits { max_reward_calls: Some(1), ..Default::default() };
    let mut stopped = 0;
    let mut observer = |event: &Event| {
        if let Event::Node(node) = event {
            stopped += usize::from(node.reason == Some(PruneReason::Stopped));
        }
        ControlFlow::Continue(())
    };
    let problem = crate::common::limited(4, &table, &reward, limits);
    Treasure::new(3, 2).run(&problem, Key::new(1), &mut observer).unwrap();
    assert_eq!(stopped, 3);
}

#[test]
fn the_naive_tree_collapses_to_few_distinct_branches() {
    let (table, reward) = parts();
    let mut distinct = Vec::new();
    let mut observer = |event: &Event| {
        if let Event::Step(step) = event
            && step.masks_left > 0
        {
            distinct.push(step.distinct as f64 / step.children as f64);
        }
        ControlFlow::Continue(())
    };
    NaiveTree { steps: 200, ..NaiveTree::default() }
        .run(&problem(4, &table, &reward), Key::new(1), &mut observer)
        .unwrap();
    let mean = distinct.iter().sum::<f64>() / distinct.len() as f64;
    assert!(mean < 0.4, "five candidates a parent are mostly one: {mean}");
}

/// A writer that is full after some bytes.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(io::Error::other("disk full"));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_trace_that_cannot_be_written_stops_the_search_and_says_why() {
    let (table, reward) = parts();
    let mut trace = TraceWriter::new(Full(2000));
    let outcome =
        Treasure::new(3, 2).run(&problem(4, &table, &reward), Key::new(1), &mut trace).unwrap();
    assert_eq!(outcome.stopped, Some(StopReason::Observer));
    assert_eq!(trace.finish().err().unwrap().to_string(), "disk full");
}
