//! `treasure score`: given texts, scored by a reward.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::Args;
use treasure::{Field, Plan, Request, Session, SessionOptions};

use crate::{
    Verdict,
    failure::{OrFail as _, Outcome},
    input,
    options::{Asks, Common, Flags},
    output::print,
};

/// Score given texts with a reward
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure score --reward sentiment=positive \"What a lovely day\" \"What a mess\"
  treasure score --reward ppl:DIR --ids 5,17,23 --json
  treasure score --reward cola --file texts.txt

A file holds one text a line; a file that ends in .jsonl holds rows with `text`
(as `generate` writes them), `prompt` or `context_string`. `-` is standard
input, a text a line.")]
pub struct Score {
    /// What to score with, and whose conventions hold.
    #[command(flatten)]
    pub reward: Flags<Self>,
    /// The texts
    #[arg(value_name = "TEXT", required_unless_present_any = ["ids", "file"])]
    pub text: Vec<String>,
    /// Texts from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "ids"])]
    pub file: Option<PathBuf>,
    /// Token ids as they are, with no special tokens added; may be repeated
    #[arg(long, value_name = "IDS", conflicts_with = "text")]
    pub ids: Vec<String>,
    /// How weights are held in memory: auto, f32, f16, bf16, int8 or file
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub dtype: String,
    /// Most texts in one reward batch; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = crate::options::count("reward_batch"))]
    pub reward_batch: Option<NonZeroUsize>,
}

impl Asks for Score {
    fn asks(field: &Field) -> bool {
        matches!(field.name, "reward" | "preset" | "precision")
    }
}

impl Score {
    /// Loads the reward and scores every input in order.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let ids = self.ids.iter().map(|ids| treasure::read_whole_ids(ids));
        let given: Vec<Vec<u32>> = ids.collect::<treasure::Result<_>>()?;
        let texts = input::finished(self.file.as_deref(), &self.text)?;
        let reward_dtype = Some(self.dtype.clone());
        let plan = Plan::new(&Request { reward_dtype, ..self.reward.request(common)? })?;
        let session = Session::pocket()?.with_options(SessionOptions {
            reward_batch: self.reward_batch.map(NonZeroUsize::get),
            cache_bytes: 0,
            ..SessionOptions::default()
        });
        let texts: Vec<&str> = texts.iter().filter_map(|entry| entry.text.as_deref()).collect();
        let mut rows = session.score_under(&plan, &texts)?;
        for ids in given {
            rows.push(session.score_ids(&plan, ids).context(|| "--ids")?);
        }
        for scored in rows {
            print::either(common, &scored, scored.lines(plan.reading()))?;
            if !common.json {
                scored.cuts().iter().for_each(|cut| common.say(format!("note: {cut}")));
            }
        }
        Ok(Verdict::Done)
    }
}
