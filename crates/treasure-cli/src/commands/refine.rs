//! `treasure refine`: finished texts, made better.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::Args;
use treasure::{Batch, Field, Group, Session};

use crate::{
    Verdict,
    failure::Outcome,
    input,
    options::{Asks, Common, Flags, Sizes},
    output::{Screen, Sinks},
};

/// Make finished texts better
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure refine \"The old dog was sad.\" --reward sentiment=positive
  treasure refine \"The old dog was sad.\" --reward cola --keep \"old dog\"
  treasure refine \"The old dog was sad.\" --reward cola --matches \"The old .*\"
  treasure refine --file rows.jsonl --reward cola --rounds 8 --out better.jsonl

A share of the text is masked again and searched anew; what is better is kept,
and where nothing is, the given bytes come back. Rows are those of `generate`,
with `before` and `reward_before`.

A constraint is on the whole text, which must satisfy it already: every text on
the way does.

A file holds one text a line; a file that ends in .jsonl holds rows with `text`,
whose own fields are carried on; without a constraint a `prompt` that the text
begins with stays as it is. `-` is standard input, a text a line.")]
pub struct Refine {
    /// The texts
    #[arg(value_name = "TEXT", required_unless_present = "file")]
    pub text: Vec<String>,
    /// Texts from a file
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub file: Option<PathBuf>,
    /// What is asked for.
    #[command(flatten)]
    pub request: Flags<Self>,
    /// The share that is masked again, from the first round to the last [default: 0.5..0.1]
    #[arg(long, value_name = "FROM..TO", value_parser = share, help_heading = "Search")]
    pub share: Option<(f64, f64)>,
    /// How much at once.
    #[command(flatten)]
    pub sizes: Sizes,
    /// Also append the rows to a file, as JSON Lines
    #[arg(long, value_name = "FILE.jsonl", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Continue an interrupted --out file: finished rows are kept and not repeated
    #[arg(long, requires = "out", help_heading = "Output")]
    pub resume: bool,
    /// Texts that are refined at once; the result does not depend on it
    #[arg(long, value_name = "N", default_value = "8", value_parser = crate::options::count("in_flight"), help_heading = "Output")]
    pub in_flight: NonZeroUsize,
}

/// `0.5..0.1`, or one share for all rounds.
fn share(text: &str) -> Result<(f64, f64), String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if f64::is_finite(from) && f64::is_finite(to) => Ok((from, to)),
        _ => Err(format!("expected FROM..TO or one share, such as 0.5..0.1, got {text:?}")),
    }
}

impl Asks for Refine {
    fn asks(field: &Field) -> bool {
        let groups = matches!(
            field.group,
            Group::Model | Group::Checkpoint | Group::Reward | Group::Refine | Group::Constraint
        );
        groups
            || field.name.starts_with("max_")
            || matches!(
                field.name,
                "keep" | "preset" | "target_reward" | "lambda" | "samples" | "answer"
            )
    }
}

impl Refine {
    /// Plans, loads, refines and hands the rows on.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let mut request = self.request.request(common)?;
        request.method = Some("refine".into());
        let share =
            self.share.into_iter().flat_map(|(from, to)| [("share_from", from), ("share_to", to)]);
        request.options.extend(share.map(|(name, value)| (name.to_owned(), value.into())));
        let texts = input::finished(self.file.as_deref(), &self.text)?;
        let batch = Batch::new(&request, texts)?;
        // With a deadline texts must not wait for one another.
        let in_flight = if request.max_seconds.is_some() { 1 } else { self.in_flight.get() };
        let session = Session::pocket()?.with_options(self.sizes.options(in_flight));
        common.say(batch.first().line());
        let sinks = Sinks {
            common,
            screen: Screen::new(common.quiet),
            out: self.out.as_deref(),
            resume: self.resume,
            trace: None,
            fill_in: None,
            shard: (0, 1),
        };
        sinks.run(&session, &batch)
    }
}
