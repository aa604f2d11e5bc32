//! The loop: change an input, run it, keep it if its outcome is new.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::{Duration, Instant},
};

use super::Choices;

/// What became of one input.
pub struct Seen {
    /// Whether it was accepted, so that what lies behind the reader was run.
    pub past_the_reader: bool,
    /// What happened, for telling outcomes apart; digits do not count.
    pub outcome: String,
}

impl Seen {
    pub fn refused(error: impl std::fmt::Display) -> Self {
        let outcome = error.to_string();
        let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!outcome.contains(odd), "control characters in {outcome:?}");
        assert!(!outcome.is_empty(), "an error says something");
        Self { past_the_reader: false, outcome }
    }

    pub fn deep(outcome: impl Into<String>) -> Self {
        Self { past_the_reader: true, outcome: outcome.into() }
    }

    fn signature(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.past_the_reader.hash(&mut hasher);
        // Quoted input and numbers make every message new.
        let (mut inside, mut length) = (false, 0);
        for c in self.outcome.chars() {
            inside ^= c == '"';
            if !inside && !c.is_ascii_digit() && length < 60 {
                c.hash(&mut hasher);
                length += 1;
            }
        }
        hasher.finish()
    }
}

/// A generator of mutations; which ones it makes is nobody's result.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    /// A changed copy of an input that was worth keeping, or a new one.
    fn input(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        if pool.is_empty() || self.below(4) == 0 {
            return self.bytes(160);
        }
        let mut input = pool[self.below(pool.len())].clone();
        for _ in 0..=self.below(3) {
            let at = self.below(input.len());
            match self.below(5) {
                0 if !input.is_empty() => input[at] = self.next() as u8,
                1 => input.insert(at, self.next() as u8),
                2 if !input.is_empty() => drop(input.remove(at)),
                3 => input.truncate(at),
                _ => {
                    let other = &pool[self.below(pool.len())];
                    input.truncate(at);
                    input.extend(&other[self.below(other.len())..]);
                }
            }
        }
        input
    }
}

fn seconds() -> f64 {
    std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6.0)
}

/// What a slow build or a busy machine is allowed for, in times of a target's patience.
fn leniency() -> u32 {
    std::env::var("FUZZ_PATIENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn corpus_file(target: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/fuzz/corpus");
    PathBuf::from(folder).join(format!("{target}.txt"))
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(corpus_file(target)).unwrap_or_default();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Peak memory of this process in MB, where it can be known.
fn peak() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

/// Inputs of a target in the check, at most.
const CHECKED: u64 = 200;

/// Runs a target for a while. An input that panics, takes longer than `patience` (on demand only) or more memory than a
/// small machine has is a failure that prints it.
pub fn fuzz(target: &str, patience: Duration, run: impl Fn(&mut Choices<'_>) -> Seen) {
    let end = Instant::now() + Duration::from_secs_f64(seconds());
    let mut pool = corpus(target);
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|text| text.parse().ok());
    // In the check the same inputs every time, and no clock decides; at length, ever new ones.
    let at_length = std::env::var_os("FUZZ_SECONDS").is_some();
    let fresh_seed = if at_length { u64::from(std::process::id()) } else { 1 };
    let mut random = Random(seed.unwrap_or(fresh_seed));
    let most = if at_length { u64::MAX } else { CHECKED };
    let (mut runs, mut deep, mut slowest) = (0u64, 0u64, Duration::ZERO);
    let mut seen: HashSet<u64> = HashSet::new();
    let mut fresh: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut waiting = pool.clone();
    while (Instant::now() < end && runs < most) || !waiting.is_empty() {
        let input = waiting.pop().unwrap_or_else(|| random.input(&pool));
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut Choices::new(&input))));
        let took = began.elapsed();
        let Ok(outcome) = outcome else { panic!("{target}: input {}", hex(&input)) };
        if at_length {
            assert!(took < patience * leniency(), "{target}: {took:?} for input {}", hex(&input));
        }
        slowest = slowest.max(took);
        runs += 1;
        deep += u64::from(outcome.past_the_reader);
        let signature = outcome.signature();
        if seen.insert(signature) {
            pool.push(input.clone());
            fresh.push((signature, input));
        }
    }
    let peak = peak();
    println!(
        "fuzz {target}: {runs} inputs, {deep} past the reader, {} outcomes, slowest {} ms, peak {} MB",
        seen.len(),
        slowest.as_millis(),
        peak.unwrap_or(0)
    );
    assert!(peak.is_none_or(|peak| peak < 4096), "{target}: {peak:?} MB");
    assert!(deep > 0, "{target}: no input got past the reader");
    if std::env::var("FUZZ_CORPUS").is_ok_and(|what| what == "write") {
        fresh.sort_by_key(|(_, input)| input.len());
        let lines: Vec<String> = fresh.iter().take(48).map(|(_, input)| hex(input)).collect();
        std::fs::write(corpus_file(target), lines.join("\n") + "\n").unwrap();
    }
}
