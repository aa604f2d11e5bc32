//! The `treasure` command line: typed arguments become a plan that can be printed, then a run.
//!
//! Data goes to standard output, talk to standard error. Exit 0 done, 1 ran but the asked target was
//! missed, 2 error, 130 interrupted with the best so far kept.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the doc comments of options are their help, where [MASK] stands for itself"
)]

mod cli;
mod commands;
mod failure;
mod input;
mod interrupt;
mod options;
mod output;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

use cli::{Cli, Command};
use failure::{Failure, Outcome};

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything asked for was done.
    Done,
    /// It ran, but the asked target was missed.
    Missed,
    /// The user stopped it; the best so far was kept.
    Interrupted,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match run(&cli) {
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::Missed) => ExitCode::from(1),
        Ok(Verdict::Interrupted) => ExitCode::from(130),
        Err(failure) => {
            // That nobody reads standard error is no reason to panic.
            let _ = write!(io::stderr(), "{failure}");
            if cli.common.json {
                let _ = writeln!(io::stdout(), "{}", failure.to_json());
            }
            ExitCode::from(2)
        }
    }
}

/// Says what is wrong with the arguments, or gives the help that they ask for.
fn refuse(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    // Not parsed, so looked for: whoever asked for JSON gets its errors as JSON.
    if std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json") {
        let _ = writeln!(io::stdout(), "{}", Failure::of_arguments(error).to_json());
    }
    ExitCode::from(2)
}

fn run(cli: &Cli) -> Outcome<Verdict> {
    let common = &cli.common;
    common.start_threads()?;
    match &cli.command {
        Command::Generate(command) => command.run(common),
        Command::Refine(command) => command.run(common),
        Command::Predict(command) => command.run(common),
        Command::Score(command) => command.run(common),
        Command::Compare(command) => command.run(common),
        #[cfg(feature = "eval")]
        Command::Eval(command) => command.run(common),
        #[cfg(feature = "eval")]
        Command::Trace(command) => command.run(common),
        #[cfg(feature = "server")]
        Command::Serve(command) => command.run(common),
        Command::Models(command) => command.run(common),
        #[cfg(feature = "eval")]
        Command::Bench(command) => command.run(common),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    }
}
