//! `treasure score`: given texts, scored by a reward.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use treasure::{
    Plan, Request, Session, SessionOptions,
    rewards::{Breakdown, Composite},
};

use crate::{
    Verdict,
    failure::{OrFail as _, Outcome},
    input::{ids, texts},
    options::{common::Common, request::PresetKind},
    output::{number, print, row},
};

/// Score given texts with a reward
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure score --reward sentiment=positive \"What a lovely day\" \"What a mess\"
  treasure score --reward ppl:DIR --ids 5,17,23 --json
  treasure score --reward cola --file texts.txt

A file holds one text a line; a file that ends in .jsonl holds rows with `text` (as `generate` writes
them), `prompt` or `context_string`. `-` is standard input, a text a line.")]
pub struct Score {
    /// What to score with
    #[arg(long, value_name = "SPEC", default_value = "perplexity")]
    pub reward: String,
    /// The texts
    #[arg(value_name = "TEXT", required_unless_present_any = ["ids", "file"])]
    pub text: Vec<String>,
    /// Texts from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "ids"])]
    pub file: Option<PathBuf>,
    /// Token ids as they are, with no special tokens added; may be repeated
    #[arg(long, value_name = "IDS", conflicts_with = "text")]
    pub ids: Vec<String>,
    /// How weights are held in memory: auto, f32, f16, bf16 or int8
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub dtype: String,
    /// Whose conventions rewards follow: `fk` looks at the reference protocol's windows
    #[arg(long, value_enum, value_name = "PRESET", default_value_t)]
    pub preset: PresetKind,
    /// Most texts in one reward batch; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub reward_batch: Option<NonZeroUsize>,
}

/// The JSON row of one text.
#[derive(Serialize)]
struct Scored {
    /// The text, or `null` for token ids.
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Vec<u32>>,
    reward: f64,
    rewards: Map<String, Value>,
    detail: Value,
}

impl Score {
    /// Loads the reward and scores every input in order.
    pub fn run(&self, common: &Common) -> Outcome<Verdict> {
        let given: Vec<Vec<u32>> =
            self.ids.iter().map(|ids| ids::complete(ids)).collect::<Outcome<_>>()?;
        let mut texts = match &self.file {
            Some(file) => texts::read(file)?,
            None => Vec::new(),
        };
        for text in &self.text {
            match text.as_str() {
                "-" => texts.extend(texts::read(Path::new("-"))?),
                text => texts.push(text.to_owned()),
            }
        }
        let plan = Plan::new(&Request {
            reward: Some(self.reward.clone()),
            reward_dtype: Some(self.dtype.clone()),
            preset: Some(self.preset.into()),
            ..Request::default()
        })?;
        let session = Session::pocket()?.with_options(SessionOptions {
            reward_batch: self.reward_batch.map(NonZeroUsize::get),
            cache_bytes: 0,
            ..SessionOptions::default()
        });
        let reward = session.reward_of(&plan)?;
        let mut rows = Vec::new();
        if given.is_empty() {
            let views: Vec<&str> = texts.iter().map(String::as_str).collect();
            let scored = reward.breakdown(&views)?;
            let row = |(found, text)| Scored::new(found, Some(text), None);
            rows.extend(scored.into_iter().zip(texts).map(row));
        } else {
            for ids in given {
                let found = by_ids(&reward, &ids)?;
                rows.push(Scored::new(found, None, Some(ids)));
            }
        }
        for scored in rows {
            if common.json {
                print::line(serde_json::to_string(&scored)?)?;
                continue;
            }
            let what =
                scored.text.unwrap_or_else(|| format!("{:?}", scored.ids.unwrap_or_default()));
            let remark = row::short_remark(plan.reading(), scored.reward);
            print::line(format!("{}{remark}   {what}", number::reward(scored.reward)))?;
            if scored.rewards.len() > 1 {
                print::line(format!("  parts {}", row::scores(&scored.rewards)))?;
            }
            if scored.detail["truncated"] == true {
                common.say("note: the text is longer than the judge reads; it saw the beginning");
            }
        }
        Ok(Verdict::Done)
    }
}

impl Scored {
    fn new(found: Breakdown, text: Option<String>, ids: Option<Vec<u32>>) -> Self {
        Self {
            text,
            ids,
            reward: found.total,
            rewards: found.parts.into_iter().map(|(name, value)| (name, value.into())).collect(),
            detail: found.detail.unwrap_or_else(|| Value::Object(Map::new())),
        }
    }
}

/// Scores ids as they are.
fn by_ids(reward: &Composite, ids: &[u32]) -> Outcome<Breakdown> {
    let mut found = reward.breakdown_ids(&[ids]).context(|| "--ids")?;
    Ok(found.swap_remove(0))
}
