//! Searches of every method under random options, budgets, constraints and stops keep their promises.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Map, Value, json};
use treasure::{Job, Plan, Request, Sample, Session, Watch, core::Event};

use super::{Choices, Seen, fuzz, requests, toy};

fn request(choices: &mut Choices<'_>) -> Value {
    const REWARDS: &[&str] = &[
        "contains:w3,w5",
        "length:2..5",
        "regex:'w3 w4'",
        "distinct:2",
        "avoids:w1",
        "contains:w2 + 0.5*distinct:1",
        "min(contains:w2, avoids:w3)",
        "product(contains:w2, distinct:2)",
    ];
    let mut fields = Map::new();
    requests::method(choices, &mut fields);
    // Small enough to run to its end by the thousand.
    for (_, value) in &mut fields {
        if let Some(number) = value.as_u64() {
            *value = (number % 7).into();
        }
    }
    fields.insert("model".into(), "own".into());
    fields.insert("reward".into(), (*choices.pick(REWARDS)).into());
    fields.insert("length".into(), (1 + choices.below(7)).into());
    fields.insert("min_length".into(), 0.into());
    fields.insert("seed".into(), choices.below(9).into());
    if choices.chance(60) {
        fields.insert("max_nfe".into(), choices.below(30).into());
    }
    if choices.chance(60) {
        fields.insert("max_reward_calls".into(), choices.below(30).into());
    }
    if choices.chance(30) {
        fields.insert("target_reward".into(), (choices.below(10) as f64 / 10.0).into());
    }
    if choices.chance(30) {
        fields.insert("max_seconds".into(), (1e-6 * (1 + choices.below(300)) as f64).into());
    }
    if choices.chance(30) {
        fields.insert("screen".into(), "distinct:1".into());
    }
    if choices.chance(20) {
        fields.insert("preset".into(), (*choices.pick(&["plain", "paper", "fk"])).into());
    }
    if choices.chance(20) {
        fields.insert("answer".into(), (*choices.pick(&["best-seen", "final", "draw"])).into());
    }
    match choices.below(10) {
        0 => drop(fields.insert("choices".into(), json!(["w3 w4", "w5", "w1 w2 w3"]))),
        1 => drop(fields.insert("matches".into(), "w[1-4]( w[0-9])*".into())),
        _ => {}
    }
    fields.into()
}

fn check(plan: &Plan, sample: &Sample) {
    assert!(sample.reward.is_finite());
    assert!(sample.tokens.len() <= plan.length);
    assert!(plan.max_nfe.is_none_or(|most| sample.cost.nfe <= most), "{:?}", sample.cost);
    assert!(plan.max_reward_calls.is_none_or(|most| sample.cost.reward_calls <= most));
    if let Some(rule) = &plan.rule {
        assert!(rule.accepts(&sample.continuation).unwrap().is_ok(), "{:?}", sample.continuation);
    }
}

fn search(session: &Session, choices: &mut Choices<'_>) -> Seen {
    let asked = request(choices);
    let plan = match Request::from_value(asked).and_then(|request| Plan::new(&request)) {
        Ok(plan) => plan,
        Err(error) => return Seen::refused(error),
    };
    let job = Job { prompt: "w1 w2".into(), ..Job::default() };
    // A stop after so many events, by flag or by the observer.
    let (cancel, left) = (AtomicBool::new(false), AtomicUsize::new(choices.below(400)));
    let (by_flag, stops) = (choices.chance(128), choices.chance(60));
    let mut see = |_: &Event| {
        let over = stops
            && left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_err();
        if over && by_flag {
            cancel.store(true, Ordering::Relaxed);
        }
        if over && !by_flag { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let trace = choices.chance(128);
    let watch = Watch {
        events: Some(&mut see),
        nodes: true,
        cancel: Some(&cancel),
        trace,
        ..Watch::default()
    };
    match session.run(&plan, &job, watch) {
        Ok(sample) => {
            check(&plan, &sample);
            let (name, stopped) = (plan.method.name(), sample.stopped.as_deref().unwrap_or("end"));
            Seen::deep(format!("{name} {stopped} {}", plan.rule.is_some()))
        }
        Err(error) => Seen { past_the_reader: true, ..Seen::refused(error) },
    }
}

#[test]
fn searches_under_any_options_and_stops_keep_their_promises() {
    let session = toy::session();
    fuzz("searches", Duration::from_secs(10), |choices| search(&session, choices));
}
