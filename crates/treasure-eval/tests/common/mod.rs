//! A world on an exact joint table, and a small plan to run in it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use treasure_core::{Bans, Denoiser, Key, MaskedSeq, Reward, TokenId, View};
use treasure_eval::{
    Error, Result,
    commands::{RunOptions, run_in},
    config::{Config, Size},
    plan::{Overrides, Plan},
    run::{Reading, World},
    shard::Shard,
    store::ModelHash,
};
use treasure_testkit::JointTable;
use treasure_text::{Layout, Start};

pub const LENGTH: usize = 5;
const VOCAB: usize = 4;

pub const CONFIG: &str = include_str!("tiny.toml");

pub struct TableWorld {
    pub table: JointTable,
    /// Judging fails once after so many calls.
    pub fail_at: Option<usize>,
    pub judged: AtomicUsize,
    /// Slows every judgement down, so that a kill finds something in flight.
    pub delay: Duration,
}

impl TableWorld {
    pub fn new() -> Self {
        Self {
            table: JointTable::random(VOCAB, LENGTH, Key::new(11)),
            fail_at: None,
            judged: AtomicUsize::new(0),
            delay: Duration::ZERO,
        }
    }
}

/// The share of one letter.
struct Letter(char);

fn text_of(tokens: &[TokenId]) -> String {
    tokens.iter().map(|&token| ['a', 'b', '<', ' '][token as usize]).collect()
}

fn share(spec: &str, text: &str) -> f64 {
    let letter = spec.chars().last().unwrap_or('a');
    text.chars().filter(|&c| c == letter).count() as f64 / text.len().max(1) as f64
}

impl Reward for Letter {
    fn name(&self) -> &str {
        "letter"
    }

    fn score(&self, batch: &[&View]) -> treasure_core::Result<Vec<f64>> {
        Ok(batch
            .iter()
            .map(|view| match view {
                View::Tokens(tokens) => share(&self.0.to_string(), &text_of(tokens)),
                View::Text(_) => f64::NAN,
            })
            .collect())
    }
}

impl World for TableWorld {
    fn denoiser(&self) -> &dyn Denoiser {
        &self.table
    }

    fn start(&self, _: &Plan, prompt: &str) -> Result<Start> {
        Ok(Start {
            state: MaskedSeq::empty(LENGTH),
            layout: Layout::prompt(prompt, 0, LENGTH),
            bans: Bans::none(),
            ends: Vec::new(),
        })
    }

    fn reward<'a>(&'a self, spec: &str, _: &Start) -> Result<Box<dyn Reward + 'a>> {
        Ok(Box::new(Letter(spec.chars().last().unwrap_or('a'))))
    }

    fn read(&self, start: &Start, tokens: &[TokenId]) -> Result<Reading> {
        let continuation = text_of(tokens);
        let text = format!("{}{continuation}", start.prompt_text());
        Ok(Reading { text, continuation, tokens: tokens.to_vec() })
    }

    fn judge(&self, spec: &str, texts: &[&str]) -> Result<Vec<f64>> {
        let count = self.judged.fetch_add(1, Ordering::SeqCst) + 1;
        if self.fail_at == Some(count) {
            return Err(Error::World {
                what: format!("judge {spec}"),
                message: "fell asleep".into(),
                source: None,
            });
        }
        std::thread::sleep(self.delay);
        Ok(texts.iter().map(|text| share(spec, &text[text.len() - LENGTH..])).collect())
    }

    fn perplexity(&self, _: &str, _: &str, texts: &[&str]) -> Result<Vec<f64>> {
        Ok(texts.iter().map(|text| 1.0 + text.len() as f64 / 7.0).collect())
    }

    fn token_text(&self, token: TokenId) -> Option<String> {
        Some(text_of(&[token]))
    }

    fn hashes(&self, _: &Plan) -> Result<Vec<ModelHash>> {
        Ok(vec![ModelHash { name: "table".into(), sha256: "11".into() }])
    }
}

pub fn plan() -> Plan {
    let config = Config::parse("tiny", CONFIG).unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&config, Size::Quick, &Overrides::default()).unwrap()
}

pub fn options(out: &Path, shard: &str, resume: bool) -> RunOptions {
    RunOptions {
        preset: "tiny".into(),
        out: Some(out.into()),
        resume,
        shard: Some(shard.parse::<Shard>().unwrap()),
        quiet: true,
        ..RunOptions::default()
    }
}

/// A whole run in one go, merged; the bytes of `samples.jsonl`.
pub fn uninterrupted(folder: &Path) -> Vec<u8> {
    run_in(&TableWorld::new(), plan(), &options(folder, "0/1", false)).unwrap();
    merged(folder)
}

pub fn merged(folder: &Path) -> Vec<u8> {
    let merged = treasure_eval::commands::merge(&[folder.into()], None).unwrap();
    std::fs::read(merged.samples).unwrap()
}
