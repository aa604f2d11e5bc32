//! How a masked diffusion checkpoint loads and runs, as lines of JSON for `bench/checkpoints/run.py`.
//!
//! `checkpoint FOLDER-OR-FILE PRECISION ROUNDS TOKENS…`: seconds to load, then seconds of forward passes on texts of so
//! many tokens, half of them masked, and the memory that all of it took. `checkpoint machine PRECISION`: how many
//! operations a second this machine does on registers, and how fast it reads memory. `RAYON_NUM_THREADS` threads.

use std::{hint::black_box, time::Instant};

use rayon::prelude::*;
use serde_json::{Value, json};
use treasure_core::{Bans, Denoiser as _, MaskedSeq, Question, State, Want};
use treasure_models::{
    LoadOptions, MaskedLm, Resolver,
    exec::{Isa, Precision, operations, register_flops},
};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of a line of `/proc/self/status`; nothing where there is none.
fn memory(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(1024 * line.split_whitespace().nth(1)?.parse::<u64>().ok()?)
}

/// CPU seconds of all threads so far.
fn cpu_seconds() -> Option<f64> {
    let of_task = |path: std::path::PathBuf| -> Option<f64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    Some(tasks.filter_map(|task| of_task(task.ok()?.path())).sum::<f64>() / 1e9)
}

/// The best of many short bursts on every thread.
fn machine(precision: Precision) -> Value {
    let best = |burst: &dyn Fn() -> f64| (0..30).map(|_| burst()).fold(0.0, f64::max);
    let flops: f64 = rayon::broadcast(|_| {
        best(&|| {
            let began = Instant::now();
            register_flops(Isa::best(), precision, 1_000_000) / began.elapsed().as_secs_f64()
        })
    })
    .into_iter()
    .sum();
    // Too much for every cache.
    let words: Vec<u64> = (0..1 << 27).collect();
    let read = best(&|| {
        let began = Instant::now();
        black_box(words.par_chunks(1 << 20).map(|part| part.iter().fold(0, |a, b| a ^ b)).max());
        8.0 * words.len() as f64 / began.elapsed().as_secs_f64()
    });
    json!({"threads": rayon::current_num_threads(), "flops": flops, "bytes_a_second": read})
}

fn main() -> Anyhow<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: checkpoint PLACE PRECISION ROUNDS TOKENS… or checkpoint machine PRECISION";
    let [place, precision, rest @ ..] = &words[..] else { return Err(usage.into()) };
    let precision = Precision::chosen(precision, None)?;
    let [rounds, lengths @ ..] = rest else {
        println!("{}", machine(precision));
        return Ok(());
    };
    let options = LoadOptions { precision, ..LoadOptions::default() };
    let began = Instant::now();
    let model = MaskedLm::load(&Resolver::new().offline(), place, &options)?;
    let (seconds, what) = (began.elapsed().as_secs_f64(), model.describe());
    let held = json!({"held_as": what.dtype.to_string(), "weights": what.memory_bytes});
    println!("{}", json!({"load_seconds": seconds, "model": held}));
    for tokens in lengths {
        let tokens: usize = tokens.parse()?;
        let slot = |at: usize| at.is_multiple_of(2).then_some((at * 31 % 90) as u32);
        let seq = MaskedSeq::from_slots((0..tokens).map(slot));
        for _ in 0..rounds.parse()? {
            let (began, before, cpu) = (Instant::now(), operations(), cpu_seconds());
            let encodings = model.encode(&[State { seq: &seq, t: 0.5 }])?;
            let want = Want { argmax: true, confidence: true, ..Want::default() };
            let bans = Bans::none();
            let question = Question { seq: &seq, encoding: &encodings[0], bans: &bans, want };
            let answers = model.read(&[question])?;
            let (seconds, done) = (began.elapsed().as_secs_f64(), operations() - before);
            let cpu = cpu_seconds().zip(cpu).map(|(after, before)| after - before);
            let first = answers[0].argmax.first().map(|top| format!("{top:?}"));
            let pass =
                json!({"seconds": seconds, "cpu_seconds": cpu, "operations": done, "first": first});
            println!("{}", json!({"tokens": tokens, "pass": pass}));
        }
    }
    let of = |field| memory(field).map_or(Value::Null, Value::from);
    println!(
        "{}",
        json!({"peak": of("VmHWM:"), "of_files": of("RssFile:"), "own": of("RssAnon:")})
    );
    Ok(())
}
