//! Budgets: never exceeded, and the best so far is never lost.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use treasure_core::{
    Clock, Deadline, Error, Key, Limits, Method, Remask, Sampler, Silent, StopReason,
    methods::{
        Accept, Base, BestOfN, Code, Dfs, Dream, Dsearch, Dts, DtsStar, Fhs, FkReference,
        FkSteering, Greedy, IterRef, Llada, NaiveTree, Pg, Pick, Policy, Refine, Search, Smc, Svdd,
        Treasure, Treeg,
    },
};
use treasure_testkit::{JointTable, TableReward};

use crate::common::{limited, problem, run};

fn methods() -> Vec<Box<dyn Search>> {
    let sampler = Sampler::Ancestral { steps: 10 };
    let remdm = Sampler::Remdm { steps: 10, remask: Remask::Cap, eta: Some(0.3) };
    vec![
        Box::new(Base { steps: 10 }),
        Box::new(Fhs {}),
        Box::new(Greedy::default()),
        Box::new(BestOfN { particles: 3, sampler }),
        Box::new(FkSteering { particles: 3, sampler, ..FkSteering::default() }),
        Box::new(FkSteering {
            particles: 3,
            sampler: Sampler::FirstHitting,
            ..FkSteering::default()
        }),
        Box::new(FkReference { particles: 2, ..FkReference::default() }),
        Box::new(Svdd { particles: 3, chains: 1, sampler, alpha: 0.0 }),
        Box::new(Code { particles: 3, code_block: 3, sampler }),
        Box::new(NaiveTree { steps: 10, ..NaiveTree::default() }),
        Box::new(Treasure::new(3, 2)),
        Box::new(Treasure { value: treasure_core::ValueKind::Posterior, ..Treasure::new(3, 2) }),
        Box::new(Treasure { value: treasure_core::ValueKind::Previous, ..Treasure::new(3, 2) }),
        Box::new(BestOfN { particles: 2, sampler: remdm }),
        Box::new(FkSteering { particles: 3, sampler: remdm, ..FkSteering::default() }),
        Box::new(Smc { particles: 3, ..Smc::default() }),
        Box::new(Pg { particles: 3, iterations: 2, ..Pg::default() }),
        Box::new(Dts { iterations: 5, branch_every: 2, ..Dts::default() }),
        Box::new(DtsStar { iterations: 5, branch_every: 2, ..DtsStar::default() }),
        Box::new(DtsStar { iterations: 5, policy: Policy::Puct, ..DtsStar::default() }),
        Box::new(Treeg { sampler, ..Treeg::default() }),
        Box::new(Treeg { sampler: Sampler::FirstHitting, ..Treeg::default() }),
        Box::new(Dfs { particles: 2, look_every: 2, ..Dfs::default() }),
        Box::new(Dsearch { particles: 2, expand: 2, replace: 0.5, ..Dsearch::default() }),
        Box::new(IterRef { refine_every: 2, final_rounds: 2, tries: 2, ..IterRef::default() }),
        Box::new(Refine { rounds: 2, ..Refine::default() }),
        Box::new(Refine { rounds: 2, pick: Pick::Worst, ..Refine::default() }),
        Box::new(Refine { rounds: 2, accept: Accept::Metropolis, ..Refine::default() }),
        Box::new(Llada { steps: Some(2), block: Some(2), ..Llada::default() }),
        Box::new(Dream { steps: Some(2), ..Dream::default() }),
    ]
}

fn parts() -> (JointTable, TableReward) {
    (JointTable::random(3, 4, Key::new(1)), TableReward::random(3, 4, Key::new(2)))
}

#[test]
fn every_method_is_tested_under_budgets() {
    let tested: Vec<_> = methods().iter().map(|method| method.name()).collect();
    for name in Method::NAMES {
        assert!(tested.contains(name), "{name} has no row in the table of this file");
    }
}

#[test]
fn no_method_exceeds_a_budget_and_every_answer_is_complete() {
    let (table, reward) = parts();
    for method in methods() {
        let free = run(&*method, &problem(4, &table, &reward), 1);
        for limit in 0..=12 {
            for (max_nfe, max_reward_calls) in [(Some(limit), None), (None, Some(limit))] {
                let limits = Limits { max_nfe, max_reward_calls, ..Limits::default() };
                let result =
                    method.run(&limited(4, &table, &reward, limits), Key::new(1), &mut Silent);
                let name = method.name();
                match result {
                    Ok(outcome) => {
                        assert!(max_nfe.is_none_or(|max| outcome.cost.nfe <= max), "{name}");
                        assert!(
                            max_reward_calls.is_none_or(|max| outcome.cost.reward_calls <= max),
                            "{name}"
                        );
                        assert_eq!(outcome.tokens.len(), 4);
                        assert!(outcome.tokens.iter().all(|token| *token < 3));
                        if let Some(value) = outcome.reward {
                            assert_eq!(value, reward.of(&outcome.tokens), "{name}");
                        }
                        match outcome.stopped {
                            None => assert_eq!(
                                outcome, free,
                                "{name}: a limit that was not met changes nothing"
                            ),
                            Some(reason) => {
                                let expected = if max_nfe.is_some() {
                                    StopReason::MaxNfe
                                } else {
                                    StopReason::MaxRewardCalls
                                };
                                assert_eq!(reason, expected);
                                if let Some(best) = outcome.best_seen {
                                    assert_eq!(
                                        outcome.reward,
                                        Some(best.reward),
                                        "{name}: the best so far"
                                    );
                                    assert_eq!(outcome.tokens, best.tokens);
                                }
                            }
                        }
                    }
                    Err(Error::Stopped { reason, cost, .. }) => {
                        assert_eq!(limit, 0, "{name}: with any budget there is something to show");
                        assert_eq!((reason, cost.nfe), (StopReason::MaxNfe, 0), "{name}");
                    }
                    Err(error) => panic!("{name}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_reward_budget_is_used_to_its_last_call() {
    let (table, reward) = parts();
    for limit in 1..=9 {
        let limits = Limits { max_reward_calls: Some(limit), ..Limits::default() };
        let outcome = run(&Treasure::new(3, 2), &limited(4, &table, &reward, limits), 1);
        assert_eq!(outcome.stopped, Some(StopReason::MaxRewardCalls));
        assert_eq!(outcome.cost.reward_calls, limit);
        assert_eq!(outcome.reward, outcome.best_seen.map(|best| best.reward));
    }
}

#[test]
fn more_budget_never_ends_below_the_best_seen_with_less() {
    let (table, reward) = parts();
    let mut last = f64::MIN;
    for limit in 1..20 {
        let limits = Limits { max_reward_calls: Some(limit), ..Limits::default() };
        let outcome = run(&Treasure::new(3, 2), &limited(4, &table, &reward, limits), 1);
        let best = outcome.best_seen.unwrap().reward;
        assert!(best >= last);
        last = best;
    }
}

#[test]
fn a_search_without_reward_calls_still_hands_back_what_it_finished() {
    let (table, reward) = parts();
    let limits = Limits { max_reward_calls: Some(0), ..Limits::default() };
    let outcome = run(&Fhs {}, &limited(4, &table, &reward, limits), 1);
    let free = run(&Fhs {}, &problem(4, &table, &reward), 1);
    assert_eq!(outcome.reward, None);
    assert_eq!(outcome.stopped, Some(StopReason::MaxRewardCalls));
    // The last step's children were not kept; the masks left are filled from the last prediction.
    let same = outcome.tokens.iter().zip(&free.tokens).filter(|(a, b)| a == b).count();
    assert!(same >= 3, "{:?} against {:?}", outcome.tokens, free.tokens);
}

#[test]
fn the_target_stops_at_the_first_complete_sequence_that_reaches_it() {
    let (table, reward) = parts();
    let free = run(&Treasure::new(3, 2), &problem(4, &table, &reward), 1);
    let best = free.best_seen.unwrap().reward;
    let limits = Limits { target_reward: Some(best), ..Limits::default() };
    let outcome = run(&Treasure::new(3, 2), &limited(4, &table, &reward, limits), 1);
    assert_eq!(outcome.stopped, Some(StopReason::Target));
    assert_eq!(outcome.reward, Some(best));
    assert!(outcome.cost.reward_calls <= free.cost.reward_calls);
    let easy = Limits { target_reward: Some(-1.0), ..Limits::default() };
    let outcome = run(&Treasure::new(3, 2), &limited(4, &table, &reward, easy), 1);
    assert_eq!((outcome.stopped, outcome.cost.nfe), (Some(StopReason::Target), 1));
    let missed = Limits { target_reward: Some(2.0), ..Limits::default() };
    assert_eq!(run(&Treasure::new(3, 2), &limited(4, &table, &reward, missed), 1).stopped, None);
}

/// A clock that moves on by one second whenever it is read.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn a_deadline_on_a_clock_handed_in_stops_every_method() {
    let (table, reward) = parts();
    for method in methods() {
        for seconds in [0, 1, 4, 9] {
            let clock = Ticking(AtomicU64::new(0));
            let deadline = Deadline { clock: &clock, at: Duration::from_secs(seconds) };
            let limits = Limits { deadline: Some(deadline), ..Limits::default() };
            match method.run(&limited(4, &table, &reward, limits), Key::new(1), &mut Silent) {
                Ok(outcome) => {
                    assert_eq!(outcome.tokens.len(), 4);
                    let reason = outcome.stopped;
                    assert!(reason.is_none() || reason == Some(StopReason::Deadline));
                    if let (Some(_), Some(best)) = (reason, outcome.best_seen) {
                        let answer = (outcome.tokens, outcome.reward);
                        let name = method.name();
                        assert_eq!(answer, (best.tokens, Some(best.reward)), "{name}: the best");
                    }
                }
                Err(error) => {
                    assert!(seconds <= 1, "{}: {error}", method.name());
                    assert!(error.to_string().contains("stopped by the deadline"), "{error}");
                }
            }
            if seconds == 0 {
                assert_eq!(clock.now(), Duration::from_secs(1), "read once, nothing done");
            }
        }
    }
}

/// A clock that jumps: back, far ahead, and back again.
struct Jumping(AtomicU64);

impl Clock for Jumping {
    fn now(&self) -> Duration {
        const TIMES: [u64; 5] = [5, 0, u64::MAX / 2, 1, 7];
        let look = self.0.fetch_add(1, Ordering::Relaxed) as usize;
        Duration::from_nanos(if look < 6 { 3 } else { TIMES[look % 5] })
    }
}

#[test]
fn a_clock_that_jumps_stops_a_search_at_the_most_and_never_breaks_one() {
    let (table, reward) = parts();
    for method in methods() {
        for at in [0, 4, 6, u64::MAX] {
            let clock = Jumping(AtomicU64::new(0));
            let deadline = Some(Deadline { clock: &clock, at: Duration::from_nanos(at) });
            let limits = Limits { deadline, ..Limits::default() };
            let problem = limited(4, &table, &reward, limits);
            match method.run(&problem, Key::new(1), &mut Silent) {
                Ok(found) => {
                    assert!(matches!(found.stopped, None | Some(StopReason::Deadline)));
                    assert_eq!(found.tokens.len(), 4, "{}", method.name());
                }
                Err(Error::Stopped { reason, .. }) => assert_eq!(reason, StopReason::Deadline),
                Err(error) => panic!("{}: {error}", method.name()),
            }
        }
    }
}
