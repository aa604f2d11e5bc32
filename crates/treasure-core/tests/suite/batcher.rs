//! Searches that share batches get the numbers they would get alone, whoever joins or leaves.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use treasure_core::{
    Answer, Bans, Batcher, Denoiser, Encoding, Error, Facts, Guided, Key, Limits, MaskedSeq,
    NoiseSchedule, Outcome, Problem, Question, Result, Reward, Sampler, Search, Silent, State,
    StopReason, View, Wrapper,
    methods::{BestOfN, FkSteering, Treasure},
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

/// Runs all seeds, at most `in_flight` at once, through one batcher.
fn together<T: Send>(
    in_flight: usize,
    seeds: &[u64],
    denoiser: &Arc<dyn Denoiser>,
    reward: &Arc<dyn Reward>,
    run: impl Fn(u64, &dyn Denoiser, &dyn Reward) -> T + Sync,
) -> Vec<T> {
    let batcher = Batcher::new();
    let next = AtomicUsize::new(0);
    let mut results: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..in_flight.min(seeds.len()))
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let index = next.fetch_add(1, Ordering::SeqCst);
                        let Some(&seed) = seeds.get(index) else { return done };
                        let seat = batcher.join();
                        let (denoiser, reward) =
                            (seat.denoiser(denoiser.clone()), seat.reward(reward.clone()));
                        done.push((index, run(seed, &denoiser, &reward)));
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(batcher.seated(), 0);
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn samples_in_flight_give_the_outcomes_and_costs_they_give_alone() {
    let table: Arc<dyn Denoiser> = Arc::new(JointTable::random(VOCAB, LEN, Key::new(1)));
    let reward: Arc<dyn Reward> = Arc::new(TableReward::random(VOCAB, LEN, Key::new(2)));
    let seeds: Vec<u64> = (0..17).collect();
    for method in methods() {
        let plain = |outcome: Outcome| (outcome.tokens, outcome.reward, outcome.cost);
        let one = |seed, denoiser: &dyn Denoiser, reward: &dyn Reward| {
            plain(search(&*method, seed, denoiser, reward).unwrap())
        };
        let alone: Vec<_> = seeds.iter().map(|&seed| one(seed, &*table, &*reward)).collect();
        for in_flight in [1, 2, 5, 17] {
            let shared = together(in_flight, &seeds, &table, &reward, one);
            assert_eq!(shared, alone, "{} with {in_flight} in flight", method.name());
        }
    }
}

/// A denoiser whose numbers depend on company: it counts the states of a batch of its own search alone.
struct Sociable {
    inner: JointTable,
    starts: AtomicUsize,
}

impl Denoiser for Sociable {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    fn row_invariant(&self) -> bool {
        false
    }

    fn reuses(&self) -> bool {
        true
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let starts = batch.iter().filter(|state| state.seq.n_masked() == LEN).count();
        self.starts.fetch_max(starts, Ordering::Relaxed);
        self.inner.encode(batch)
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        self.inner.read(batch)
    }
}

#[test]
fn a_denoiser_that_depends_on_company_is_asked_for_each_search_by_itself() {
    let inner = JointTable::random(VOCAB, LEN, Key::new(1));
    let own = Arc::new(Sociable { inner, starts: AtomicUsize::new(0) });
    let denoiser: Arc<dyn Denoiser> = own.clone();
    let reward: Arc<dyn Reward> = Arc::new(TableReward::random(VOCAB, LEN, Key::new(2)));
    for reuse in [None, Some(2)] {
        let method = Treasure { reuse, ..Treasure::new(3, 2) };
        // All begin together, so that a table which shared would hand over several starts at once.
        let (seeds, together_now) = ([0, 1, 2, 3], Barrier::new(4));
        let one = |seed, denoiser: &dyn Denoiser, reward: &dyn Reward| {
            together_now.wait();
            search(&method, seed, denoiser, reward).unwrap().tokens
        };
        let found = together(4, &seeds, &denoiser, &reward, one);
        assert_eq!(own.starts.load(Ordering::Relaxed), 1);
        let alone = |seed| search(&method, seed, &*own, &*reward).unwrap().tokens;
        assert_eq!(found, seeds.map(alone));
    }
}

#[test]
fn a_prediction_of_two_passes_counts_as_two_at_the_table_too() {
    let table: &JointTable = Box::leak(Box::new(JointTable::random(VOCAB, LEN, Key::new(1))));
    let twice: Arc<dyn Denoiser> = Arc::new(Guided::new(table, &MaskedSeq::empty(LEN), 1.0));
    let reward: Arc<dyn Reward> = Arc::new(TableReward::random(VOCAB, LEN, Key::new(2)));
    let method = BestOfN { particles: 1, sampler: Sampler::FirstHitting };
    let spent = |seed, denoiser: &dyn Denoiser, reward: &dyn Reward| {
        search(&method, seed, denoiser, reward).unwrap().cost.nfe
    };
    assert_eq!(together(2, &[0, 1], &twice, &reward, spent), [2 * LEN as u64; 2]);
}

/// A wrapper that does nothing of its own.
struct Around<'a>(&'a dyn Denoiser);

impl Wrapper for Around<'_> {
    fn inner(&self) -> &dyn Denoiser {
        self.0
    }
}

#[test]
fn a_wrapper_says_what_the_denoiser_inside_says() {
    let table = JointTable::random(VOCAB, LEN, Key::new(1));
    let twice = Guided::new(&table, &MaskedSeq::empty(LEN), 1.0);
    let inner = JointTable::random(VOCAB, LEN, Key::new(2));
    let sociable = Sociable { inner, starts: AtomicUsize::new(0) };
    for inner in [&twice as &dyn Denoiser, &sociable] {
        let outer: &dyn Denoiser = &Around(inner);
        assert_eq!(outer.facts(), inner.facts());
        assert_eq!(outer.passes(), inner.passes());
        assert_eq!(outer.row_invariant(), inner.row_invariant());
        assert_eq!(outer.reuses(), inner.reuses());
        assert_eq!(outer.encoding_bytes(LEN), inner.encoding_bytes(LEN));
    }
}

/// A reward that records its largest batch and fails on views that begin with a given token.
struct Picky {
    inner: TableReward,
    largest: AtomicUsize,
    panics: bool,
}

impl Reward for Picky {
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
    let table: Arc<dyn Denoiser> = Arc::new(JointTable::random(VOCAB, LEN, Key::new(1)));
    let seeds: Vec<u64> = (0..24).collect();
    let method = BestOfN { particles: 1, sampler: Sampler::FirstHitting };
    for panics in [false, true] {
        let inner = TableReward::random(VOCAB, LEN, Key::new(2));
        let picky = Arc::new(Picky { inner, largest: AtomicUsize::new(0), panics });
        let reward: Arc<dyn Reward> = picky.clone();
        let one = |seed, denoiser: &dyn Denoiser, reward: &dyn Reward| {
            search(&method, seed, denoiser, reward).map(|outcome| outcome.tokens).ok()
        };
        let alone: Vec<_> = seeds.iter().map(|&seed| one(seed, &*table, &*reward)).collect();
        assert!(alone.iter().any(Option::is_some) && alone.iter().any(Option::is_none));
        picky.largest.store(0, Ordering::Relaxed);
        // On a busy machine searches this small may each be over before the next begins.
        let met = (0..100).any(|_| {
            assert_eq!(together(6, &seeds, &table, &reward, one), alone, "panics: {panics}");
            picky.largest.load(Ordering::Relaxed) > 1
        });
        assert!(met, "nothing was ever scored together");
    }
}

/// A reward that answers only once it is let go.
struct Stuck {
    open: AtomicBool,
    inner: TableReward,
}

impl Reward for Stuck {
    fn name(&self) -> &str {
        "stuck"
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        while !self.open.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        self.inner.score(batch)
    }
}

#[test]
fn a_slow_reward_holds_up_nobody_who_waits_for_another() {
    let table: Arc<dyn Denoiser> = Arc::new(JointTable::random(VOCAB, LEN, Key::new(1)));
    let quick: Arc<dyn Reward> = Arc::new(TableReward::random(VOCAB, LEN, Key::new(2)));
    let inner = TableReward::random(VOCAB, LEN, Key::new(2));
    let stuck = Arc::new(Stuck { open: AtomicBool::new(false), inner });
    let slow: Arc<dyn Reward> = stuck.clone();
    let (batcher, both) = (Batcher::new(), Barrier::new(2));
    let method = Treasure::new(3, 2);
    let one = |reward: &Arc<dyn Reward>| {
        let seat = batcher.join();
        both.wait();
        let seated = (seat.denoiser(table.clone()), seat.reward(reward.clone()));
        search(&method, 1, &seated.0, &seated.1).unwrap().tokens
    };
    thread::scope(|scope| {
        let waits = scope.spawn(|| one(&slow));
        let quick = one(&quick);
        stuck.open.store(true, Ordering::SeqCst);
        assert_eq!(waits.join().unwrap(), quick, "and the slow one gets the same answer");
    });
}

#[test]
fn cancelling_one_search_leaves_the_others_alone() {
    let table: Arc<dyn Denoiser> = Arc::new(JointTable::random(VOCAB, LEN, Key::new(1)));
    let reward: Arc<dyn Reward> = Arc::new(TableReward::random(VOCAB, LEN, Key::new(2)));
    let (batcher, both, cancel) = (Batcher::new(), Barrier::new(2), AtomicBool::new(true));
    let method = Treasure::new(3, 2);
    let alone = search(&method, 1, &*table, &*reward).unwrap();
    let run = |cancel: Option<&AtomicBool>| {
        let seat = batcher.join();
        both.wait();
        let seated = (seat.denoiser(table.clone()), seat.reward(reward.clone()));
        let schedule = NoiseSchedule::default();
        let limits = Limits { cancel, ..Limits::default() };
        let start = MaskedSeq::empty(LEN);
        let problem =
            Problem::new(start, &schedule, &seated.0, &seated.1, Bans::none(), limits).unwrap();
        method.run(&problem, Key::new(1), &mut Silent)
    };
    thread::scope(|scope| {
        let cancelled = scope.spawn(|| run(Some(&cancel)));
        let whole = run(None).unwrap();
        assert_eq!((whole.tokens, whole.cost), (alone.tokens, alone.cost));
        match cancelled.join().unwrap() {
            Err(Error::Stopped { reason, .. }) => assert_eq!(reason, StopReason::Cancelled),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_search_that_is_stopped_leaves_a_batch_that_others_still_wait_for() {
    let table: Arc<dyn Denoiser> = Arc::new(JointTable::random(VOCAB, LEN, Key::new(1)));
    let inner: Arc<dyn Reward> = Arc::new(TableReward::random(VOCAB, LEN, Key::new(2)));
    let gate = Arc::new(Gate::on(&inner));
    let reward: Arc<dyn Reward> = gate.clone();
    let (batcher, both, cancel) = (Batcher::new(), Barrier::new(2), AtomicBool::new(false));
    let method = Treasure::new(3, 2);
    let alone = search(&method, 1, &*table, &*inner).unwrap();
    let run = |cancel: Option<&AtomicBool>| {
        let seat = batcher.join();
        both.wait();
        let seated = (seat.denoiser(table.clone()), seat.reward(reward.clone()));
        let schedule = NoiseSchedule::default();
        let limits = Limits { cancel, ..Limits::default() };
        let start = MaskedSeq::empty(LEN);
        let problem =
            Problem::new(start, &schedule, &seated.0, &seated.1, Bans::none(), limits).unwrap();
        method.run(&problem, Key::new(1), &mut Silent)
    };
    thread::scope(|scope| {
        // The first to wait serves the batch of both; whichever that is, the stopped one must answer.
        let stopped = scope.spawn(|| run(Some(&cancel)));
        let whole = scope.spawn(|| run(None));
        while !gate.entered.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        cancel.store(true, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(60));
        gate.open.store(true, Ordering::SeqCst);
        let stopped = stopped.join().unwrap().unwrap();
        assert_eq!(stopped.stopped, Some(StopReason::Cancelled));
        let whole = whole.join().unwrap().unwrap();
        assert_eq!((whole.tokens, whole.cost), (alone.tokens, alone.cost));
    });
}

/// A reward that answers once a gate is opened.
struct Gate {
    inner: Arc<dyn Reward>,
    entered: AtomicBool,
    open: AtomicBool,
}

impl Gate {
    fn on(inner: &Arc<dyn Reward>) -> Self {
        Self { inner: inner.clone(), entered: AtomicBool::new(false), open: AtomicBool::new(false) }
    }
}

impl Reward for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        self.entered.store(true, Ordering::SeqCst);
        while !self.open.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        self.inner.score(batch)
    }
}

#[test]
fn the_seconds_of_searches_that_ran_beside_each_other_add_up_to_the_whole() {
    let (batcher, both) = (Batcher::new(), Barrier::new(2));
    let began = std::time::Instant::now();
    let shares: Vec<f64> = thread::scope(|scope| {
        let run = || {
            let seat = batcher.join();
            both.wait();
            thread::sleep(Duration::from_millis(60));
            both.wait();
            seat.seconds()
        };
        let other = scope.spawn(run);
        vec![run(), other.join().unwrap()]
    });
    let sum: f64 = shares.iter().sum();
    assert!(sum <= began.elapsed().as_secs_f64() + 1e-6, "{shares:?}");
    assert!(sum >= 0.05, "{shares:?}");
}
