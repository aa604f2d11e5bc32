//! The command line as a type.

use clap::{Parser, Subcommand};

use crate::{commands, options::common::Common};

/// Tree search that steers masked diffusion language models at generation time.
#[derive(Debug, Parser)]
#[command(
    name = "treasure",
    version,
    max_term_width = 100,
    subcommand_required = true,
    // The last one counts, so that an alias or a script can be overridden.
    args_override_self = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  treasure generate \"Once upon a time\" --reward sentiment=negative
  treasure generate --template \"The [MASK:5] was [MASK:12].\"
  treasure score --reward sentiment=positive \"What a lovely day\"
  treasure compare \"The movie\" --reward cola
  treasure serve

Exit status: 0 done, 1 ran but the asked target was missed, 2 error, 130 interrupted with the best kept."
)]
pub struct Cli {
    /// What every command has.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate text that a reward likes
    Generate(Box<commands::generate::Generate>),
    /// Make finished texts better
    Refine(Box<commands::refine::Refine>),
    /// What the denoiser would put at each mask
    Predict(commands::predict::Predict),
    /// Score given texts with a reward
    Score(commands::score::Score),
    /// Run several methods on one prompt at the same budget
    Compare(Box<commands::compare::Compare>),
    /// Whole experiments: run, merge and report
    #[cfg(feature = "eval")]
    Eval(commands::eval::Eval),
    /// Answer OpenAI's API over HTTP, and show the playground
    #[cfg(feature = "server")]
    Serve(Box<commands::serve::Serve>),
    /// Look into a search that was written with --trace
    #[cfg(feature = "eval")]
    Trace(commands::trace::Trace),
    /// What is shipped and cached, and what a model is
    Models(commands::models::Models),
    /// Measure forward, search step and reward throughput on this machine
    #[cfg(feature = "eval")]
    Bench(Box<commands::bench::Bench>),
    /// Print the completions of a shell
    Completions(commands::shell::Completions),
    /// Print the manual page, or write those of every command
    Man(commands::shell::Man),
}
