//! What every command has: `--json`, `--seed`, `--threads`, `--quiet`.

use std::{
    io::{self, Write as _},
    num::NonZeroUsize,
};

use clap::Args;

use crate::failure::{OrFail as _, Outcome};

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Print JSON on standard output (one object, or one row a line); errors too
    #[arg(long, global = true)]
    pub json: bool,
    /// The seed of all randomness: the same seed and plan give the same bytes [default: 0]
    #[arg(long, global = true, value_name = "N", value_parser = super::whole::<u64>)]
    pub seed: Option<u64>,
    /// Threads to use, at most the machine's cores; the result does not depend on it [default: all]
    #[arg(long, global = true, value_name = "N", value_parser = threads)]
    pub threads: Option<NonZeroUsize>,
    /// No talk and no progress on standard error, only errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Common {
    /// Sets the size of the thread pool that models and rewards work on.
    pub fn start_threads(&self) -> Outcome<()> {
        let (threads, cores) = (self.n_threads(), cores());
        if let Some(asked) = self.threads.filter(|asked| asked.get() > cores) {
            self.say(format!("note: --threads {asked} is more than the {cores} cores there are"));
        }
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .context(|| format!("--threads {threads}"))
    }

    /// How many threads to use.
    pub fn n_threads(&self) -> usize {
        self.threads.map_or(cores(), |asked| asked.get().min(cores()))
    }

    /// Talk: a line on standard error unless `--quiet`. That nobody listens is no reason to stop.
    pub fn say(&self, message: impl std::fmt::Display) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{message}");
        }
    }
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let expected = || format!("expected 1 to the {} cores of this machine, got {text:?}", cores());
    text.parse().map_err(|_| expected())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
