//! `treasure generate`: text that a reward likes.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use clap::Args;
use treasure::{Batch, Entry, Field, Group, Request, Session, Watch};

use crate::{
    Verdict,
    failure::{Failure, Outcome},
    input, interrupt,
    options::{Asks, Common, Flags, Sizes},
    output::{Screen, Sinks, print},
    wording,
};

/// Generate text that a reward likes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure generate \"Once upon a time\" --reward sentiment=negative
  treasure generate \"The old dog\" --reward sentiment=negative --beside
  treasure generate \"The movie\" --reward \"cola + 0.5*perplexity\" --tree-width 4
  treasure generate --template \"The [MASK:5] was [MASK:12].\" --reward cola
  treasure generate --prompts prompts.jsonl --samples 4 --out rows.jsonl

Rewards: sentiment=positive|neutral|negative, toxicity, no-toxicity, cola,
  perplexity, hf:DIR-or-ID#LABEL, ppl:DIR-or-ID, nelbo:MODEL, regex:PATTERN,
  contains:a,b, avoids:a,b, length:40..60, distinct:N, json-schema:FILE,
  exec:COMMAND, tei+http://HOST:PORT#LABEL, vllm+http://…#LABEL,
  completions+http://…, reward+http://…
  combined with `a + 0.5*b`, min(a, b), product(a, b);
  prefixes prob:, accuracy: and raw:

An empty prompt \"\" generates without one, `-` reads one from standard input.
Ctrl-C prints the best so far and exits with 130.")]
pub struct Generate {
    /// The beginning of the text; several give several rows
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Prompts or templates from JSON Lines, each with fields of your own; `-` is standard input
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "prompt")]
    pub prompts: Option<PathBuf>,
    /// Fill the holes of a text, such as "The [MASK:5] was [MASK:12]."
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["prompt", "prompts"])]
    pub template: Option<String>,
    /// Fill the holes of a text file in place, such as [MASK:5] or [MASK|choices:red,green]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "prompts", "template", "samples", "out", "beside"])]
    pub fill_in: Option<PathBuf>,
    /// The prompt is what a user says: write it by the checkpoint's chat template
    #[arg(long, conflicts_with_all = ["template", "fill_in"])]
    pub chat: bool,
    /// What the system message says, in chat
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub system: Option<String>,
    /// What is asked for.
    #[command(flatten)]
    pub request: Flags<Self>,
    /// How much at once.
    #[command(flatten)]
    pub sizes: Sizes,
    /// Where results go.
    #[command(flatten)]
    pub files: Files,
}

impl Asks for Generate {
    fn asks(field: &Field) -> bool {
        !matches!(field.group, Group::Start | Group::Refine)
            && !matches!(field.name, "seed" | "keys")
    }
}

/// Where results go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub struct Files {
    /// Show unguided text and the best of 16 beside ours
    #[arg(long, conflicts_with_all = ["out", "trace", "watch"])]
    pub beside: bool,
    /// Also append the rows to a file, as JSON Lines
    #[arg(long, value_name = "FILE.jsonl")]
    pub out: Option<PathBuf>,
    /// Continue an interrupted --out file: finished rows are kept and not repeated
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Write every step of the search, as JSON Lines; `treasure trace view` shows it
    #[arg(long, value_name = "FILE.jsonl")]
    pub trace: Option<PathBuf>,
    /// Watch the text crystallise in the terminal
    #[arg(long)]
    pub watch: bool,
    /// Searches that run at once; the result does not depend on it
    #[arg(long, value_name = "N", default_value = "8", value_parser = crate::options::count("in_flight"))]
    pub in_flight: NonZeroUsize,
    /// Only part I of N of the prompts, counted from 0
    #[arg(long, value_name = "I/N", value_parser = part)]
    pub shard: Option<(usize, usize)>,
}

/// `0/4`, `1/4` …
fn part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((i, n)) if i < n && n <= 1_000_000 => Ok((i, n)),
        _ => Err(format!("expected I/N with I below N, such as 0/4, got {text:?}")),
    }
}

/// The prompts of a command line, where `-` is standard input; what looks like a slip gets a note.
pub fn prompts(written: &[String], common: &Common) -> Outcome<Vec<Entry>> {
    let entry = |prompt: &String| match prompt.as_str() {
        "-" => {
            let text = input::read(Path::new("-"))?;
            Ok(Entry::prompt(text.strip_suffix('\n').unwrap_or(&text)))
        }
        prompt => Ok(Entry::prompt(prompt)),
    };
    let entries = written.iter().map(entry).collect();
    wording::slips(written).iter().for_each(|slip| common.say(format!("note: {slip}")));
    entries
}

impl Generate {
    /// What the user wants continued or filled in.
    fn entries(&self, common: &Common) -> Outcome<Vec<Entry>> {
        let template = |text| Ok(vec![Entry { template: Some(text), ..Entry::default() }]);
        match (&self.prompts, &self.fill_in, &self.template) {
            (Some(file), ..) => input::entries(file),
            (_, Some(file), _) => template(input::read(file)?),
            (.., Some(text)) => template(text.clone()),
            _ if self.prompt.is_empty() => {
                Err(Failure::new("nothing to generate: expected a prompt").hint(
                    "try `treasure generate \"Once upon a time\"`, or --prompts FILE.jsonl, \
                     or --template \"The [MASK:5] was [MASK:12].\"",
                ))
            }
            _ => prompts(&self.prompt, common),
        }
    }

    /// Plans, loads, searches and hands the rows on.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let mut request = self.request.request(common)?;
        request.chat = self.chat.then_some(true);
        request.system.clone_from(&self.system);
        let entries = self.entries(common)?;
        let watching = self.files.watch.then(Screen::watching).transpose()?;
        // With a deadline samples must not wait for one another; a view shows one text.
        let alone = request.max_seconds.is_some() || watching.is_some();
        let in_flight = if alone { 1 } else { self.files.in_flight.get() };
        let session = Session::pocket()?.with_options(self.sizes.options(in_flight));
        let entries = session.written(&request, entries)?;
        let batch = Batch::new(&request, entries.clone())?;
        common.say(batch.first().line());
        if self.files.beside {
            return self.beside(common, &session, &request, &entries);
        }
        let sinks = Sinks {
            common,
            screen: watching.unwrap_or_else(|| Screen::new(common.quiet)),
            out: self.files.out.as_deref(),
            resume: self.files.resume,
            trace: self.files.trace.as_deref(),
            fill_in: self.fill_in.as_deref(),
            shard: self.files.shard.unwrap_or((0, 1)),
        };
        sinks.run(&session, &batch)
    }

    /// Unguided text, the best of 16 and ours, side by side.
    fn beside(
        &self,
        common: &Common,
        session: &Session,
        request: &Request,
        entries: &[Entry],
    ) -> Outcome<Verdict> {
        interrupt::listen(common.quiet, "the best so far");
        for entry in entries {
            for (name, request) in request.beside() {
                let batch = Batch::new(&request, vec![entry.clone()])?;
                let Some(job) = batch.jobs((0, 1), None).into_iter().next() else { continue };
                let look = Watch { cancel: Some(&interrupt::ASKED), ..Watch::default() };
                let made = match session.run(batch.first(), &job, look) {
                    Err(error) if error.is_interrupted() => return Ok(Verdict::Interrupted),
                    made => made?,
                };
                let lines = made.lines(batch.first().reading(), false);
                print::either(common, &made, format!("{name}\n{lines}\n"))?;
            }
        }
        Ok(if interrupt::asked() { Verdict::Interrupted } else { Verdict::Done })
    }
}
