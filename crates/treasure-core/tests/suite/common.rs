//! Shared set-up: a problem over a joint table and a reward table.

use treasure_core::{
    Bans, Denoiser, Key, Limits, MaskedSeq, NoiseSchedule, Outcome, Problem, Reward, Search, Silent,
};

/// α from 1 to 0, so that nothing of the theory is approximate.
pub const EXACT: NoiseSchedule = NoiseSchedule::LogLinear { eps: 0.0 };

/// A problem without bans or limits on an empty sequence.
pub fn problem<'a>(len: usize, denoiser: &'a dyn Denoiser, reward: &'a dyn Reward) -> Problem<'a> {
    limited(len, denoiser, reward, Limits::default())
}

/// A problem with limits on an empty sequence.
pub fn limited<'a>(
    len: usize,
    denoiser: &'a dyn Denoiser,
    reward: &'a dyn Reward,
    limits: Limits<'a>,
) -> Problem<'a> {
    Problem::new(MaskedSeq::empty(len), &EXACT, denoiser, reward, Bans::none(), limits)
        .expect("a sound problem")
}

/// Runs a method without an observer.
pub fn run(method: &dyn Search, problem: &Problem<'_>, seed: u64) -> Outcome {
    method.run(problem, Key::new(seed), &mut Silent).expect("the search succeeds")
}
