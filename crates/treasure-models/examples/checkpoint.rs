//! How a masked diffusion checkpoint loads and runs: seconds to load, seconds a forward pass, peak memory.
//!
//! `target/release/examples/checkpoint FOLDER-OR-FILE [TOKENS [ROUNDS [PRECISION]]]`, half of the tokens masked;
//! `bench/checkpoints/make.py` writes checkpoints to try.

use std::time::Instant;

use treasure_core::{Bans, Denoiser as _, MaskedSeq, Question, State, Want};
use treasure_models::{
    LoadOptions, MaskedLm, Resolver,
    exec::{Precision, operations},
};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

/// A line of `/proc/self/status` in GB; nothing where there is none.
fn memory(field: &str) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(1024e-9 * line.split_whitespace().nth(1)?.parse::<f64>().ok()?)
}

fn main() -> Anyhow<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let place = words.first().ok_or("usage: checkpoint PLACE [TOKENS [ROUNDS [PRECISION]]]")?;
    let number = |at: usize, default: usize| words.get(at).map_or(Ok(default), |w| w.parse());
    let (tokens, rounds) = (number(1, 64)?, number(2, 2)?);
    let precision = words.get(3).map_or(Ok(Precision::F32), |name| Precision::chosen(name))?;
    let options = LoadOptions { precision, ..LoadOptions::default() };
    let began = Instant::now();
    let model = MaskedLm::load(&Resolver::new().offline(), place, &options)?;
    let described = model.describe();
    println!(
        "loaded in {:.2} s, held as {}, {:.2} GB of weights",
        began.elapsed().as_secs_f64(),
        described.dtype,
        described.memory_bytes as f64 / 1e9
    );
    let slot = |at: usize| at.is_multiple_of(2).then_some((at * 31 % 90) as u32);
    let seq = MaskedSeq::from_slots((0..tokens).map(slot));
    for _ in 0..rounds {
        let (began, before) = (Instant::now(), operations());
        let encodings = model.encode(&[State { seq: &seq, t: 0.5 }])?;
        let want = Want { argmax: true, confidence: true, ..Want::default() };
        let bans = Bans::none();
        let question = Question { seq: &seq, encoding: &encodings[0], bans: &bans, want };
        let answers = model.read(&[question])?;
        let (seconds, done) = (began.elapsed().as_secs_f64(), operations() - before);
        println!(
            "{tokens} tokens in {seconds:.2} s, {:.0} G operations/s, first {:?}",
            done as f64 / seconds / 1e9,
            answers[0].argmax.first()
        );
    }
    if let (Some(peak), Some(file)) = (memory("VmHWM:"), memory("RssFile:")) {
        println!("peak {peak:.2} GB, of the file {file:.2} GB at the end");
    }
    Ok(())
}
