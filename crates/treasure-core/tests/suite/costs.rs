//! Counts: work done, hits, and their sums against the formulas of the paper.

use treasure_core::{
    Bans, Key, Limits, MaskedSeq, Problem, Reader, Result, Sampler, Scoring, SelectKind, TokenId,
    ValueKind, View,
    methods::{Base, BestOfN, FkSteering, NaiveTree, Svdd, Treasure},
};
use treasure_testkit::{FnReward, JointTable, TableReward};

use crate::common::{EXACT, problem, run};

#[test]
fn nfe_and_reward_requests_equal_the_formulas_of_the_paper() {
    let (n, vocab) = (6, 4);
    let table = JointTable::random(vocab, n, Key::new(1));
    let reward = TableReward::random(vocab, n, Key::new(2));
    for (b, m) in [(1, 1), (2, 1), (3, 2), (4, 3), (4, 4)] {
        let before = (table.encoded(), reward.scored());
        let outcome = run(&Treasure::new(b, m), &problem(n, &table, &reward), 3);
        let (b, m, n) = (b as u64, m as u64, n as u64);
        assert_eq!(outcome.cost.nfe_requests(), 1 + (n - 1) * m, "b = {b}, m = {m}");
        assert_eq!(outcome.cost.reward_requests(), b + (n - 1) * b * m, "b = {b}, m = {m}");
        // The counts of work are what model and reward saw themselves.
        assert_eq!(outcome.cost.nfe, table.encoded() - before.0);
        assert_eq!(outcome.cost.reward_calls, reward.scored() - before.1);
    }
}

#[test]
fn samplers_request_one_forward_pass_per_particle_and_step() {
    let table = JointTable::random(3, 4, Key::new(1));
    let reward = TableReward::random(3, 4, Key::new(2));
    let p = || problem(4, &table, &reward);
    let steps = 30;
    let ancestral = run(&BestOfN { particles: 3, sampler: Sampler::Ancestral { steps } }, &p(), 1);
    assert_eq!(ancestral.cost.nfe_requests(), 3 * 30);
    assert_eq!(ancestral.cost.reward_requests(), 3);
    assert!(ancestral.cost.nfe <= 1 + 3 * 4, "a prediction is reused while its state stays");
    let hitting = run(&BestOfN { particles: 3, sampler: Sampler::FirstHitting }, &p(), 1);
    assert_eq!(hitting.cost.nfe_requests(), 3 * 4);
    let naive = run(&NaiveTree { steps, ..NaiveTree::default() }, &p(), 1);
    assert!(naive.cost.nfe <= 1 + 2 * 4);
    let fk = FkSteering { particles: 3, sampler: Sampler::FirstHitting, ..FkSteering::default() };
    let fk = run(&fk, &p(), 1);
    assert_eq!(fk.cost.nfe_requests(), 3 * 4, "completions read the head, not the network");
    assert_eq!(fk.cost.reward_requests(), 3 * 4 * 3 + 3);
}

#[test]
fn a_time_conditioned_denoiser_is_asked_again_at_every_time() {
    let table = JointTable::random(3, 4, Key::new(1)).timed();
    let reward = TableReward::random(3, 4, Key::new(2));
    let steps = 12;
    let outcome = run(&Base { steps }, &problem(4, &table, &reward), 1);
    assert_eq!(outcome.cost.nfe_requests(), 12);
    // Only steps after the last reveal are free: a complete sequence has nothing to predict.
    assert_eq!(outcome.cost.nfe, table.encoded());
    assert!(outcome.cost.nfe > 5, "{:?}", outcome.cost);
}

#[test]
fn the_posteriors_forward_pass_is_reused_when_the_child_is_expanded() {
    let (n, b, m) = (5u64, 3u64, 2u64);
    for timed in [false, true] {
        let table = JointTable::random(3, n as usize, Key::new(1));
        let table = if timed { table.timed() } else { table };
        let reward = TableReward::random(3, n as usize, Key::new(2));
        let method = Treasure { value: ValueKind::Posterior, ..Treasure::new(3, 2) };
        let outcome = run(&method, &problem(n as usize, &table, &reward), 1);
        // The root, b children of it, then b·m children a step; complete children need none.
        let expected = 1 + b + (n - 2) * b * m;
        assert_eq!(outcome.cost.nfe_requests(), expected, "timed: {timed}");
        assert_eq!(outcome.cost.nfe, table.encoded());
        assert_eq!(outcome.cost.reward_requests(), b + (n - 1) * b * m);
    }
}

#[test]
fn svdd_requests_one_forward_pass_per_candidate() {
    let table = JointTable::random(3, 4, Key::new(1));
    let reward = TableReward::random(3, 4, Key::new(2));
    let method = Svdd { particles: 5, chains: 1, sampler: Sampler::FirstHitting, alpha: 0.0 };
    let outcome = run(&method, &problem(4, &table, &reward), 1);
    // The root, then 5 candidates at each of 3 steps; the fourth completes.
    assert_eq!(outcome.cost.nfe_requests(), 1 + 3 * 5);
    assert_eq!(outcome.cost.reward_requests(), 4 * 5);
}

/// Reads the first token only.
struct First;

impl Reader for First {
    fn view(&self, tokens: &[TokenId]) -> Result<View> {
        Ok(View::Tokens(tokens[..1].into()))
    }
}

#[test]
fn equal_views_are_scored_once_in_a_run() {
    let table = JointTable::random(3, 5, Key::new(1));
    let reward = FnReward::new("narrow", |tokens| f64::from(tokens[0]));
    let scoring = Scoring { reader: &First, reward: &reward };
    let outcome = run(&Treasure::new(3, 3), &problem(5, &table, scoring), 1);
    assert_eq!(outcome.cost.reward_requests(), 3 + 4 * 9);
    assert!(outcome.cost.reward_calls <= 3, "there are three views: {:?}", outcome.cost);
}

#[test]
fn less_memory_costs_more_work_but_changes_no_value() {
    let table = JointTable::random(3, 6, Key::new(1));
    let reward = TableReward::random(3, 6, Key::new(2));
    let method = FkSteering {
        particles: 6,
        sampler: Sampler::Ancestral { steps: 40 },
        ..FkSteering::default()
    };
    let full = run(&method, &problem(6, &table, &reward), 1);
    for (encodings, rewards) in [(0, 0), (600, 300), (2000, 100_000)] {
        let small = run(&method, &problem(6, &table, &reward).with_memory(encodings, rewards), 1);
        assert_eq!(small.tokens, full.tokens);
        assert_eq!(small.reward, full.reward);
        assert_eq!(small.cost.nfe_requests(), full.cost.nfe_requests());
        assert_eq!(small.cost.reward_requests(), full.cost.reward_requests());
        assert!(
            small.cost.nfe >= full.cost.nfe && small.cost.reward_calls >= full.cost.reward_calls
        );
        let again = run(&method, &problem(6, &table, &reward).with_memory(encodings, rewards), 1);
        assert_eq!(again, small, "eviction is deterministic");
    }
    let none = run(&method, &problem(6, &table, &reward).with_memory(0, 0), 1);
    assert!(none.cost.nfe > full.cost.nfe && none.cost.reward_calls > full.cost.reward_calls);
}

#[test]
fn equal_states_of_a_batch_are_run_once() {
    let table = JointTable::random(3, 3, Key::new(1));
    let reward = TableReward::random(3, 3, Key::new(2));
    let problem = problem(3, &table, &reward);
    let seq = std::sync::Arc::new(MaskedSeq::empty(3));
    let done = std::sync::Arc::new(MaskedSeq::from_slots([Some(0), Some(1), Some(2)]));
    let states = [(seq.clone(), 0.9), (seq.clone(), 0.1), (done, 0.1), (seq, 0.9)];
    assert!(problem.encode(&states).is_ok());
    let cost = problem.cost();
    assert_eq!((cost.nfe, cost.nfe_hits), (1, 3));
    assert_eq!(table.encoded(), 1);
    let timed = JointTable::random(3, 3, Key::new(1)).timed();
    let timed_problem = crate::common::problem(3, &timed, &reward);
    assert!(timed_problem.encode(&states).is_ok());
    assert_eq!(timed_problem.cost().nfe, 2, "two times of one state are two passes");
}

#[test]
fn a_run_forgets_the_counts_and_the_memory_of_the_run_before() {
    let table = JointTable::random(3, 4, Key::new(1));
    let reward = TableReward::random(3, 4, Key::new(2));
    let problem = problem(4, &table, &reward);
    let first = run(&Treasure::new(3, 2), &problem, 1);
    assert_eq!(run(&Treasure::new(3, 2), &problem, 1), first);
}

#[test]
fn duplicates_reached_from_two_parents_are_one_node() {
    // Two positions, all orders: the same pairs are reached both ways once the tree is wide enough.
    let table = JointTable::random(3, 2, Key::new(4));
    let reward = TableReward::random(3, 2, Key::new(5));
    for select in [SelectKind::Top, SelectKind::Nested] {
        let method = Treasure { groups: 2, select, ..Treasure::new(3, 20) };
        let outcome = run(&method, &problem(2, &table, &reward), 1);
        let mut finals: Vec<_> =
            outcome.finals.iter().map(|particle| particle.tokens.clone()).collect();
        let count = finals.len();
        finals.sort();
        finals.dedup();
        assert_eq!(finals.len(), count, "{select}: no sequence is kept twice");
        assert_eq!(count, 9, "{select}: all nine pairs are there");
        assert!(outcome.cost.reward_cache_hits > 0);
    }
}

#[test]
fn a_ban_that_leaves_no_token_is_refused() {
    let table = JointTable::random(2, 2, Key::new(1));
    let zero = FnReward::new("zero", |_| 0.0);
    let bans = Bans::none().everywhere(0).before(1, 1);
    let error = Problem::new(MaskedSeq::empty(2), &EXACT, &table, &zero, bans, Limits::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "bans: expected at least one allowed token at position 0, got all of 3 forbidden"
    );
}
