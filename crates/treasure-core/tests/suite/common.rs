//! Shared set-up: a problem over a joint table and a reward table.

use std::sync::Mutex;

use treasure_core::{
    Answer, Bans, Denoiser, Encoding, Facts, Key, Limits, MaskedSeq, NodeEvent, NoiseSchedule,
    Outcome, Problem, Question, Result, Scoring, Search, Silent, State,
};
use treasure_testkit::{JointTable, TableReward, exact};

/// α from 1 to 0, so that nothing of the theory is approximate.
pub const EXACT: NoiseSchedule = NoiseSchedule::LogLinear { eps: 0.0 };

/// A problem without bans or limits on an empty sequence.
pub fn problem<'a>(
    len: usize,
    denoiser: &'a dyn Denoiser,
    reward: impl Into<Scoring<'a>>,
) -> Problem<'a> {
    limited(len, denoiser, reward, Limits::default())
}

/// A problem with limits on an empty sequence.
pub fn limited<'a>(
    len: usize,
    denoiser: &'a dyn Denoiser,
    reward: impl Into<Scoring<'a>>,
    limits: Limits<'a>,
) -> Problem<'a> {
    Problem::new(MaskedSeq::empty(len), &EXACT, denoiser, reward, Bans::none(), limits)
        .expect("a sound problem")
}

/// Runs a method without an observer.
pub fn run(method: &dyn Search, problem: &Problem<'_>, seed: u64) -> Outcome {
    method.run(problem, Key::new(seed), &mut Silent).expect("the search succeeds")
}

/// The state of a node that was told, from its parent's.
pub fn placed(parent: &MaskedSeq, node: &NodeEvent) -> MaskedSeq {
    let mut state = parent.remask(node.remasked.iter().copied());
    let reveal = node.position.zip(node.token);
    for (position, token) in reveal.into_iter().chain(node.also.iter().copied()) {
        state.reveal_in_place(position, token);
    }
    state
}

/// A denoiser that remembers what it was asked, and when.
pub struct Watched {
    table: JointTable,
    asked: Mutex<Vec<(MaskedSeq, u64)>>,
}

impl Watched {
    pub fn new(table: JointTable) -> Self {
        Self { table, asked: Mutex::default() }
    }

    /// Every state it was asked for with the bits of its time, in order.
    pub fn asked(self) -> Vec<(MaskedSeq, u64)> {
        self.asked.into_inner().unwrap()
    }
}

impl Denoiser for Watched {
    fn facts(&self) -> &Facts {
        self.table.facts()
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        let new = batch.iter().map(|state| (state.seq.clone(), state.t.to_bits()));
        self.asked.lock().unwrap().extend(new);
        self.table.encode(batch)
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        self.table.read(batch)
    }
}

/// The target p·exp(λ r)/Z over all sequences of a table.
pub fn target_of(table: &JointTable, reward: &TableReward, lambda: f64) -> exact::Target {
    let logprobs: Vec<f64> = table.probs().iter().map(|p| p.ln()).collect();
    exact::target(lambda, &logprobs, reward.values())
}
