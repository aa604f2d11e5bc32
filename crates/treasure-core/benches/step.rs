//! One step of the search with a denoiser and a reward that cost nothing: what the search itself takes.
//!
//! `cargo bench -p treasure-core` prints the time of a whole search of 128 masks and of one step of it,
//! for growing m (it should grow linearly), and the bytes allocated for two vocabularies (they should be
//! equal: nothing is proportional to the vocabulary).

use std::hint::black_box;

use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use treasure_core::{
    Answer, Bans, Candidate, Denoiser, Encoding, Facts, Key, Limits, MaskedSeq, NoiseSchedule,
    Problem, Question, Result, Reward, Search, SelectKind, Silent, State, TokenId, View,
    methods::Treasure,
};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const LEN: usize = 128;

/// A denoiser that answers from the position alone.
struct Free(Facts);

impl Denoiser for Free {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn encode(&self, batch: &[State<'_>]) -> Result<Vec<Encoding>> {
        Ok(batch.iter().map(|_| Encoding::new((), 0)).collect())
    }

    fn read(&self, batch: &[Question<'_>]) -> Result<Vec<Answer>> {
        Ok(batch
            .iter()
            .map(|question| Answer {
                argmax: question.seq.masked().map(|at| at as TokenId).collect(),
                top: (question.want.top.iter())
                    .map(|at| {
                        (0..at.k)
                            .map(|rank| Candidate {
                                token: (at.position + rank) as TokenId,
                                logprob: -(rank as f64) - 1.0,
                            })
                            .collect()
                    })
                    .collect(),
                ..Answer::default()
            })
            .collect())
    }
}

/// A reward that is a hash of the tokens.
struct Hash;

impl Reward for Hash {
    fn name(&self) -> &str {
        "hash"
    }

    fn score(&self, batch: &[&View]) -> Result<Vec<f64>> {
        Ok(batch
            .iter()
            .map(|view| match view {
                View::Tokens(tokens) => {
                    let mix =
                        |h: u64, &t: &u32| (h ^ u64::from(t)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    (tokens.iter().fold(1, mix) >> 12) as f64
                }
                View::Text(_) => 0.0,
            })
            .collect())
    }
}

/// Searches a sequence of 128 positions of which the last `masks` are masked.
fn search(bencher: Bencher<'_, '_>, vocab: usize, masks: usize, method: &Treasure) {
    let facts = Facts { vocab_size: vocab, never: Vec::new(), time_agnostic: true, max_len: LEN };
    let (denoiser, schedule) = (Free(facts), NoiseSchedule::default());
    let prompt = vec![1; LEN - masks];
    let start = MaskedSeq::with_prompt(&prompt, LEN).expect("it fits");
    let limits = Limits::default();
    let problem = Problem::new(start, &schedule, &denoiser, &Hash, Bans::none(), limits)
        .expect("a sound problem");
    bencher.counter(ItemsCount::new(masks)).bench_local(|| {
        black_box(method.run(&problem, Key::new(1), &mut Silent).expect("a search"))
    });
}

/// A whole search; items are steps, so items/s over 1000 means less than 1 ms a step.
#[divan::bench(args = [1, 2, 4, 8, 16, 32], sample_count = 20)]
fn search_of_128_masks_b20(bencher: Bencher<'_, '_>, m: usize) {
    search(bencher, 1000, LEN, &Treasure::new(20, m));
}

/// The same with nested selection.
#[divan::bench(args = [4, 16], sample_count = 20)]
fn nested_search_of_128_masks_b20(bencher: Bencher<'_, '_>, m: usize) {
    let method = Treasure { select: SelectKind::Nested, ..Treasure::new(20, m) };
    search(bencher, 1000, LEN, &method);
}

/// Allocations must not grow with the vocabulary.
#[divan::bench(args = [1_000, 1_000_000], sample_count = 20)]
fn vocabulary(bencher: Bencher<'_, '_>, vocab: usize) {
    search(bencher, vocab, LEN, &Treasure::new(20, 16));
}

fn main() {
    divan::main();
}
