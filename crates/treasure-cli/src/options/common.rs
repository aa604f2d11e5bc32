//! What every command has: `--json`, `--seed`, `--threads`, `--quiet`.

use std::num::NonZeroUsize;

use clap::Args;

use crate::failure::{Failure, Outcome};

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Print JSON on standard output (one object, or one row a line)
    #[arg(long, global = true)]
    pub json: bool,
    /// The seed of all randomness: the same seed and plan give the same bytes [default: 0]
    #[arg(long, global = true, value_name = "N")]
    pub seed: Option<u64>,
    /// Threads to use; the result does not depend on it [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = crate::options::positive)]
    pub threads: Option<NonZeroUsize>,
    /// No talk and no progress on standard error, only errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Common {
    /// Sets the size of the thread pool that models and rewards work on.
    pub fn start_threads(&self) -> Outcome<()> {
        let threads = self.n_threads();
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .map_err(|error| Failure::new(error).context(format!("--threads {threads}")))
    }

    /// The seed, 0 unless the user says.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// How many threads to use.
    pub fn n_threads(&self) -> usize {
        self.threads
            .or_else(|| std::thread::available_parallelism().ok())
            .map_or(1, NonZeroUsize::get)
    }

    /// Talk: a line on standard error unless `--quiet`.
    pub fn say(&self, message: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("{message}");
        }
    }
}
