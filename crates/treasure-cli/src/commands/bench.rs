//! `treasure bench`: forward, search step and reward throughput on this machine.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use treasure::{Field, Group, Plan, Session, SessionOptions};
use treasure_eval::throughput::{Line, Throughput, TimedSearch, peak_gflops};

use crate::{
    Verdict,
    failure::{OrFail as _, Outcome},
    options::{Asks, Common, Flags},
    output::print,
};

/// Measure forward, search step and reward throughput on this machine
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure bench
  treasure bench --model DIR --reward hf:DIR#LABEL --length 128 --json
  treasure bench --searches requests.jsonl --beam-width 20 --tree-width 16

Each line is the median of several rounds after one that warms up.
--searches runs each search once, after a line with the peak of the machine.
A request has `prompt` and may have `slots` (the whole sequence, null where
masked), `seed`, `skip` (steps before the clock starts), `steps` (to time) and
`memory` (false: nothing seen before is remembered).")]
pub struct Bench {
    /// Most texts in one reward batch
    #[arg(long, value_name = "N", value_parser = crate::options::count("reward_batch"))]
    pub reward_batch: Option<NonZeroUsize>,
    /// Run these searches instead (`-` reads standard input) and say as JSON where their time goes
    #[arg(long, value_name = "FILE.jsonl")]
    pub searches: Option<PathBuf>,
    /// Rounds a line is measured
    #[arg(long, value_name = "N", default_value = "7", value_parser = crate::options::count("rounds"))]
    pub rounds: NonZeroUsize,
    /// What is measured.
    #[command(flatten)]
    pub request: Flags<Self>,
}

impl Asks for Bench {
    fn asks(field: &Field) -> bool {
        matches!(field.group, Group::Model | Group::Checkpoint | Group::Search)
            || matches!(field.name, "reward" | "reward_dtype" | "length" | "min_length")
    }
}

impl Bench {
    /// Measures and prints a table, or one object a line.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let plan = Plan::new(&self.request.request(common)?)?;
        // Before anything is measured.
        let asked = self.searches.as_deref().map(opened).transpose()?;
        let what = format!("{} with reward {}", plan.model, plan.reward);
        let session = Session::pocket()?.with_options(SessionOptions {
            reward_batch: self.reward_batch.map(NonZeroUsize::get),
            cache_bytes: 0,
            ..SessionOptions::default()
        });
        let precision = plan.load.precision;
        let bench = Throughput::new(&session, plan)?;
        let (rounds, threads) = (self.rounds.get(), common.n_threads());
        if let Some(asked) = asked {
            let gflops = peak_gflops(threads, precision);
            print::line(json!({"what": "peak", "gflops": gflops, "precision": precision.name()}))?;
            return searches(&bench, asked);
        }
        let lines = bench.lines(rounds, threads)?;
        if common.json {
            for line in &lines {
                print::line(serde_json::to_string(line)?)?;
            }
            return Ok(Verdict::Done);
        }
        print::line(Line::table(&lines))?;
        common.say(format!("\n{threads} threads, median of {rounds} rounds, {what}"));
        Ok(Verdict::Done)
    }
}

/// A file of searches; `-` is standard input.
fn opened(path: &Path) -> Outcome<Box<dyn BufRead>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).context(|| format!("--searches {}", path.display()));
    let file =
        file.map_err(|failure| failure.hint("name a file of JSON Lines, or - to write them"))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Answers the requests of a stream until it ends, each as soon as it is done.
fn searches(bench: &Throughput, requests: impl BufRead) -> Outcome<Verdict> {
    for (number, line) in requests.lines().enumerate() {
        let line = line.context(|| "--searches")?;
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("--searches, line {}", number + 1);
        let asked: TimedSearch = serde_json::from_str(&line).context(place)?;
        print::line(serde_json::to_string(&bench.search(&asked).context(place)?)?)?;
    }
    Ok(Verdict::Done)
}
