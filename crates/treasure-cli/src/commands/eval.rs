//! `treasure eval`: whole experiments, from a preset to a report.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, Subcommand};
use treasure::Session;
use treasure_eval::{
    commands::{self, RunOptions},
    config::Size,
    plan::Overrides,
    run::{Said, Talk},
    shard::Shard,
};

use crate::{
    Verdict,
    failure::Outcome,
    interrupt,
    options::Common,
    output::{Screen, print},
};

/// Whole experiments: run, merge and report
#[derive(Args, Debug)]
pub struct Eval {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run an experiment, or the part of it that is missing
    #[command(after_help = "\
Examples:
  treasure eval run main --quick
  treasure eval run main --out runs/main --resume
  treasure eval run main --out runs/main --shard 0/4
  treasure eval run main --out runs/more --continuations 8 --reuse runs/main
  treasure eval run ./mine.toml --quick

docs/experiments.md says how a config is written: own prompts, rewards, methods
and any of their options. Ctrl-C drops the sample in flight, keeps the finished
ones and exits with 130; --resume goes on.
Under a Slurm job array the shard comes from the array's variables.")]
    Run(Run),
    /// Merge the shards of a run
    Merge(Folders),
    /// Write the report of one or several runs: HTML, CSV and Markdown
    Report(Folders),
}

/// Run an experiment
#[derive(Args, Debug)]
pub struct Run {
    /// A preset's name or a config file
    #[arg(value_name = "PRESET|CONFIG")]
    pub preset: String,
    /// Where results go [default: runs/PRESET]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Minutes instead of hours; the same as --size quick
    #[arg(long, conflicts_with = "size")]
    pub quick: bool,
    /// How large: paper (for people with GPUs), pocket (hours on two cores) or quick (minutes)
    #[arg(long, value_name = "SIZE", default_value = "pocket")]
    pub size: Size,
    /// Continuations of each prompt, instead of the preset's
    #[arg(long, value_name = "N", value_parser = crate::options::count("continuations"))]
    pub continuations: Option<NonZeroUsize>,
    /// Only the first prompts
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub prompts: Option<NonZeroUsize>,
    /// Another denoiser
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Another scorer of perplexity: perplexity or ppl:MODEL
    #[arg(long, value_name = "SPEC")]
    pub ppl: Option<String>,
    /// Continue a run that was cut short: finished samples are kept and not repeated
    #[arg(long)]
    pub resume: bool,
    /// Take over samples of other runs that this one would make the same way
    ///
    /// They keep the seconds of the run they come from: use it for runs of the same machine and --threads.
    #[arg(long, value_name = "DIR")]
    pub reuse: Vec<PathBuf>,
    /// Run one part of N; results are the same at any sharding
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// How the denoiser's weights are held in memory: auto, f32, f16, bf16, int8 or file
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub dtype: String,
}

/// Runs, and where what is made of them goes
#[derive(Args, Debug)]
pub struct Folders {
    /// The folders of the runs
    #[arg(value_name = "DIR", required = true)]
    pub directories: Vec<PathBuf>,
    /// Where the result goes [default: the first folder]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Eval {
    /// Does what was asked.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        match &self.action {
            Action::Run(run) => return run.run(common),
            Action::Merge(folders) => folders.merge(common)?,
            Action::Report(folders) => folders.report(common)?,
        }
        Ok(Verdict::Done)
    }
}

impl Run {
    fn run(&self, common: &Common) -> Outcome<Verdict> {
        let options = RunOptions {
            preset: self.preset.clone(),
            size: if self.quick { Size::Quick } else { self.size },
            out: self.out.clone(),
            resume: self.resume,
            reuse: self.reuse.clone(),
            shard: match self.shard {
                Some(shard) => shard,
                None => Shard::from_slurm(|name| std::env::var(name).ok())?,
            },
            overrides: Overrides {
                dtype: self.dtype.parse()?,
                model: self.model.clone(),
                continuations: self.continuations.map(NonZeroUsize::get),
                seed: common.seed,
                prompts: self.prompts.map(NonZeroUsize::get),
                ppl: self.ppl.clone(),
            },
        };
        interrupt::listen(common.quiet, "the finished samples");
        let screen = Screen::new(common.quiet);
        let mut say = |said: Said<'_>| match said {
            Said::Progress(line) if screen.is_shown() => screen.show(line),
            Said::Line(line) | Said::Progress(line) => screen.aside(|| common.say(line)),
        };
        let mut talk = Talk { say: &mut say, cancel: Some(&interrupt::ASKED) };
        let done = commands::run(&options, &Session::pocket()?, &mut talk)?;
        screen.clear();
        print::either(common, &done, done.to_string().replace("resuming", "--resume"))?;
        Ok(if done.interrupted { Verdict::Interrupted } else { Verdict::Done })
    }
}

impl Folders {
    fn merge(&self, common: &Common) -> Outcome<()> {
        let merged = commands::merge(&self.directories, self.out.as_deref())?;
        let place = merged.samples.display();
        let line = format!("{place}: {} rows from {} files", merged.rows, merged.files);
        print::either(common, &merged, line)
    }

    fn report(&self, common: &Common) -> Outcome<()> {
        let made = commands::report(&self.directories, self.out.as_deref())?;
        for missing in &made.missing {
            let (place, count) = (missing.directory.display(), missing.samples);
            common.say(format!("{place}: {count} samples are still missing"));
        }
        let files = made.files.iter().map(|file| format!("\n{}", file.display()));
        let lines = format!("{}{}", made.html.display(), files.collect::<String>());
        print::either(common, &made, lines)
    }
}
