//! Several samples in flight share batches and get the numbers they would get alone.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use treasure_core::{
    Bans, Denoiser, Error, Key, Limits, MaskedSeq, NoiseSchedule, Outcome, Problem, Result, Reward,
    Sampler, Search, Silent, View,
    methods::{BestOfN, FkSteering, Treasure},
    together,
};
use treasure_testkit::{JointTable, TableReward};

const VOCAB: usize = 4;
const LEN: usize = 5;

fn methods() -> Vec<Box<dyn Search>> {
    vec![
        Box::new(Treasure::new(3, 2)),
        Box::new(BestOfN { particles: 3, sampler: Sampler::FirstHitting }),
        Box::new(FkSteering { particles: 3, ..FkSteering::default() }),
    ]
}

fn search(
    method: &dyn Search,
    seed: u64,
    denoiser: &dyn Denoiser,
    reward: &dyn Reward,
) -> Result<Outcome> {
    let schedule = NoiseSchedule::default();
    let start = MaskedSeq::empty(LEN);
    let problem =
        Problem::new(start, &schedule, denoiser, reward, Bans::none(), Limits::default())?;
    method.run(&problem, Key::new(seed), &mut Silent)
}

#[test]
fn samples_in_flight_give_the_outcomes_and_costs_they_give_alone() {
    let table = JointTable::random(VOCAB, LEN, Key::new(1));
    let reward = TableReward::random(VOCAB, LEN, Key::new(2));
    let seeds: Vec<u64> = (0..17).collect();
    for method in methods() {
        let alone: Vec<_> = seeds
            .iter()
            .map(|&seed| search(&*method, seed, &table, &reward).unwrap())
            .map(|outcome| (outcome.tokens, outcome.reward, outcome.cost))
            .collect();
        for in_flight in [1, 2, 5, 40] {
            let finished = Mutex::new(Vec::new());
            let shared = together(
                &table,
                &reward,
                in_flight,
                &seeds,
                |&seed, denoiser, reward| search(&*method, seed, denoiser, reward).unwrap(),
                |index, _| finished.lock().unwrap().push(index),
            );
            let shared: Vec<_> = shared
                .into_iter()
                .map(|outcome| (outcome.tokens, outcome.reward, outcome.cost))
                .collect();
            assert_eq!(shared, alone, "{} with {in_flight} in flight", method.name());
            let mut finished = finished.into_inner().unwrap();
            finished.sort_unstable();
            assert_eq!(finished, (0..seeds.len()).collect::<Vec<_>>());
        }
    }
}

/// A reward that records its largest batch and fails on views that begin with a given token.
struct Picky<'a> {
    inner: &'a TableReward,
    largest: AtomicUsize,
    panics: bool,
}

impl Reward for Picky<'_> {
    fn name(&self) -> &str {
        "picky"
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        self.largest.fetch_max(batch.len(), Ordering::Relaxed);
        for view in batch {
            if matches!(view, View::Tokens(tokens) if tokens[0] == 0) {
                assert!(!self.panics, "will not look at 0");
                let message = "will not look at 0".to_string();
                return Err(Error::Reward { name: "picky".into(), message, source: None });
            }
        }
        self.inner.score(batch)
    }
}

#[test]
fn a_failing_or_panicking_request_fails_its_own_sample_only() {
    let table = JointTable::random(VOCAB, LEN, Key::new(1));
    let inner = TableReward::random(VOCAB, LEN, Key::new(2));
    let seeds: Vec<u64> = (0..24).collect();
    let method = BestOfN { particles: 1, sampler: Sampler::FirstHitting };
    for panics in [false, true] {
        let reward = Picky { inner: &inner, largest: AtomicUsize::new(0), panics };
        let alone: Vec<_> = seeds
            .iter()
            .map(|&seed| search(&method, seed, &table, &reward).map(|outcome| outcome.tokens).ok())
            .collect();
        assert!(alone.iter().any(Option::is_some) && alone.iter().any(Option::is_none));
        reward.largest.store(0, Ordering::Relaxed);
        let shared = together(
            &table,
            &reward,
            6,
            &seeds,
            |&seed, denoiser, reward| {
                search(&method, seed, denoiser, reward).map(|outcome| outcome.tokens).ok()
            },
            |_, _| (),
        );
        assert_eq!(shared, alone, "panics: {panics}");
        assert!(reward.largest.load(Ordering::Relaxed) > 1, "nothing was ever scored together");
    }
}

#[test]
fn no_jobs_give_no_results() {
    let table = JointTable::random(VOCAB, LEN, Key::new(1));
    let reward = TableReward::random(VOCAB, LEN, Key::new(2));
    let results = together(&table, &reward, 4, &[] as &[u64], |_, _, _| 1, |_, _| ());
    assert!(results.is_empty());
}
