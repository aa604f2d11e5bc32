//! The command line as a type.

use clap::{Parser, Subcommand};

use crate::{commands, options::Common};

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

Exit status: 0 done, 1 ran but the asked target was missed, 2 error,
  130 interrupted with the best kept."
)]
pub struct Cli {
    /// What every command has.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do; each says so itself.
#[derive(Debug, Subcommand)]
pub enum Command {
    Generate(Box<commands::generate::Generate>),
    Refine(Box<commands::refine::Refine>),
    Predict(commands::predict::Predict),
    Score(commands::score::Score),
    /// Run several methods on one prompt at the same budget
    Compare(Box<commands::compare::Compare>),
    #[cfg(feature = "eval")]
    Eval(commands::eval::Eval),
    #[cfg(feature = "server")]
    Serve(Box<commands::serve::Serve>),
    #[cfg(feature = "eval")]
    Trace(commands::trace::Trace),
    Models(commands::models::Models),
    #[cfg(feature = "eval")]
    Bench(Box<commands::bench::Bench>),
    Completions(commands::shell::Completions),
    Man(commands::shell::Man),
}
