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
mod wording;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{CommandFactory as _, FromArgMatches as _, error::ErrorKind};

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
    let read = numbers(Cli::command()).try_get_matches();
    let cli = match read.and_then(|given| Cli::from_arg_matches(&given)) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match run(&cli) {
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::Missed) => ExitCode::from(1),
        Ok(Verdict::Interrupted) => ExitCode::from(130),
        Err(failure) => fail(&failure.to_string(), &failure, cli.common.json),
    }
}

/// Lets every option see a negative number, so that it can say what it expects instead.
fn numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let takes = arg.get_long().is_some() && arg.get_action().takes_values();
        arg.allow_negative_numbers(takes)
    });
    command.mut_subcommands(numbers)
}

/// Says what went wrong; that nobody reads standard error is no reason to panic.
fn fail(words: &str, failure: &Failure, json: bool) -> ExitCode {
    let _ = write!(io::stderr(), "{words}");
    if json {
        let _ = writeln!(io::stdout(), "{}", failure.to_json());
    }
    ExitCode::from(2)
}

/// Says what is wrong with the arguments, or gives the help that they ask for.
fn refuse(error: &clap::Error) -> ExitCode {
    // Not parsed, so looked for: which command it is, and whether errors are to be JSON.
    let (mut command, mut name, mut json) = (Cli::command(), String::from("treasure"), false);
    for arg in std::env::args_os().skip(1).take_while(|arg| arg != "--") {
        json |= arg == "--json";
        if let Some(next) = command.find_subcommand(&arg).cloned() {
            name = format!("{name} {}", next.get_name());
            command = next;
        }
    }
    let failure = Failure::of_arguments(error, &name);
    match error.kind() {
        _ if !error.use_stderr() => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            fail(&error.render().to_string(), &failure, json)
        }
        _ => fail(&failure.to_string(), &failure, json),
    }
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
