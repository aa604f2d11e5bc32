//! `treasure compare`: several methods on the same prompts, model, seed and budget.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use treasure::{Comparison, Entry, Field, Group, Match, Method, Sample, Session, words};

use super::generate;
use crate::{
    Verdict,
    failure::{OrFail as _, Outcome},
    input, interrupt,
    options::{Asks, Common, Flags, Sizes},
    output::{Screen, print},
};

/// Run several methods at the same budget
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure compare \"The movie\" --reward sentiment=positive
  treasure compare \"The movie\" --reward cola --methods treasure,bon,fk
  treasure compare --prompts prompts.jsonl --reward cola --picture it.svg

--max-nfe, --max-reward-calls or --max-seconds is the budget of all methods;
without one the first method sets it. Where --match names another one than the
limit, the first method sets what is matched, and the limit only stops samples.
Each method gets as many particles or iterations or as wide a tree as the
budget pays for, unless an option says how many. base, fhs and greedy draw one
sample: they have nothing to spend a budget on. With several texts the table
has means and their standard errors. Where --judge names none, the shipped
judge that no search is paid for is asked, if the reward has one; perplexity
and distinct-2 stand beside it.")]
pub struct Compare {
    /// The beginning of the text; `-` reads one from standard input
    #[arg(value_name = "PROMPT", required_unless_present = "prompts")]
    pub prompt: Vec<String>,
    /// Prompts from JSON Lines; `-` is standard input
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "prompt")]
    pub prompts: Option<PathBuf>,
    /// The methods; without a limit the first one sets the budget
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(Method::NAMES.iter().copied()),
        default_value = "treasure,bon,fk,greedy,fhs"
    )]
    pub methods: Vec<String>,
    /// What the methods have in common [default: what a limit is given for, else nfe]
    #[arg(
        long = "match",
        value_name = "BUDGET",
        value_parser = PossibleValuesParser::new(Match::NAMES).try_map(|name| name.parse::<Match>())
    )]
    pub matched: Option<Match>,
    /// Draw reward against cost into this file
    #[cfg(feature = "eval")]
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,
    /// What all of them are asked for; each method takes the options it knows.
    #[command(flatten)]
    pub request: Flags<Self>,
    /// How much at once.
    #[command(flatten)]
    pub sizes: Sizes,
}

impl Asks for Compare {
    fn asks(field: &Field) -> bool {
        !matches!(field.group, Group::Start | Group::Refine)
            && !matches!(field.name, "seed" | "keys" | "method")
    }
}

impl Compare {
    /// Runs every method and prints a table, or one row a text.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let entries: Vec<Entry> = match &self.prompts {
            Some(file) => input::entries(file)?,
            None => generate::prompts(&self.prompt, common)?,
        };
        let asked = Comparison {
            request: self.request.request(common)?,
            methods: self.methods.clone(),
            matched: self.matched,
            entries,
            held_out: true,
        };
        let first = asked.check()?;
        common.say(first.line_before_width());
        let session = Session::pocket()?.with_options(self.sizes.options(1));
        interrupt::listen(common.quiet, "the best so far");
        let screen = Screen::new(common.quiet);
        let mut failed = Ok(());
        let all = session.compare(
            &asked,
            Some(&interrupt::ASKED),
            &mut |event| screen.event(event),
            &mut |made: &Sample| {
                if common.json && failed.is_ok() {
                    failed = screen.aside(|| print::line(serde_json::to_string(made)?));
                }
                Ok(())
            },
        )?;
        screen.clear();
        failed?;
        if !common.json {
            print::line(words::comparison(&all, first.reading()))?;
            for (one, row) in all.iter().filter_map(|one| Some((one, one.rows.first()?))) {
                print::line(format!("\n{}\n{}", one.method, row.text))?;
            }
        }
        #[cfg(feature = "eval")]
        if let Some(path) = &self.picture
            && let Some(figure) =
                treasure_eval::plots::compared(&all, asked.budget().0, &first.reward.to_string())?
        {
            let place = || format!("--picture {}", path.display());
            std::fs::write(path, figure.standalone()).context(place)?;
        }
        let rows: usize = all.iter().map(|one| one.rows.len()).sum();
        if rows < asked.methods.len() * asked.entries.len() * first.samples || interrupt::asked() {
            return Ok(Verdict::Interrupted);
        }
        let missed = |row: &Sample| first.target_reward.is_some_and(|target| row.reward < target);
        let any = all.iter().flat_map(|one| &one.rows).any(missed);
        Ok(if any { Verdict::Missed } else { Verdict::Done })
    }
}
