//! A session on an exact joint table, and a small plan to run in it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use treasure::{
    FunctionModel, Session,
    core::{
        Answer, Denoiser, Encoding, Facts, Key, MaskedSeq, Question, Result as CoreResult, State,
    },
    models::Tokenizer,
    rewards::{Error as RewardError, Explained, Result as RewardResult, TextReward},
};
use treasure_eval::{
    Result,
    commands::{RunOptions, RunSummary, run_plan},
    config::{Config, Size},
    plan::{Overrides, Plan},
    run::{Said, Talk},
};
use treasure_testkit::JointTable;

pub const LENGTH: usize = 5;

pub const CONFIG: &str = include_str!("tiny.toml");

/// A table over the last positions of a sequence, whatever prompt stands before them.
struct Behind {
    table: JointTable,
    facts: Facts,
}

impl Denoiser for Behind {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, batch: &[State<'_>]) -> CoreResult<Vec<Encoding>> {
        let end = |state: &State<'_>| {
            let slots: Vec<_> = state.seq.slots().collect();
            MaskedSeq::from_slots(slots[slots.len() - LENGTH..].iter().copied())
        };
        let ends: Vec<_> = batch.iter().map(end).collect();
        let states: Vec<_> =
            ends.iter().zip(batch).map(|(seq, state)| State { seq, t: state.t }).collect();
        self.table.encode(&states)
    }

    fn read(&self, batch: &[Question<'_>]) -> CoreResult<Vec<Answer>> {
        self.table.read(batch)
    }
}

/// The share of one letter among the last of a text.
struct Letter(String);

impl TextReward for Letter {
    fn name(&self) -> &str {
        &self.0
    }

    fn score(&self, texts: &[&str]) -> RewardResult<Vec<f64>> {
        let share = |text: &&str| {
            let last = &text.as_bytes()[text.len() - LENGTH..];
            let letter = self.0.as_bytes()[self.0.len() - 1];
            last.iter().filter(|&&byte| byte == letter).count() as f64 / LENGTH as f64
        };
        Ok(texts.iter().map(share).collect())
    }
}

/// What disturbs a run while texts are judged.
#[derive(Clone, Default)]
pub struct Trouble {
    /// The judge of perplexity fails once, at this call.
    pub fail_at: Option<usize>,
    /// Slows every one of its calls down, so that a kill finds something in flight.
    pub delay: Duration,
    pub calls: Arc<AtomicUsize>,
}

impl TextReward for Trouble {
    fn name(&self) -> &str {
        "ppl"
    }

    fn score(&self, texts: &[&str]) -> RewardResult<Vec<f64>> {
        Ok(self.explain(texts)?.into_iter().map(|one| one.value).collect())
    }

    fn explain(&self, texts: &[&str]) -> RewardResult<Vec<Explained>> {
        if self.fail_at == Some(self.calls.fetch_add(1, Ordering::SeqCst) + 1) {
            return Err(RewardError::reward("ppl", "fell asleep"));
        }
        std::thread::sleep(self.delay);
        let explained = texts.iter().map(|text| {
            let spread = text.bytes().map(u64::from).sum::<u64>() % 7;
            let nll = 1.0 + spread as f64 / 7.0;
            Explained { value: -nll, detail: Some(json!({"nll_mean": nll, "tokens": text.len()})) }
        });
        Ok(explained.collect())
    }
}

/// A session on the table; letters are rewards and judges.
pub fn session(trouble: Trouble) -> Session {
    let table = JointTable::random(4, LENGTH, Key::new(11));
    let facts = Facts { max_len: 64, ..table.facts().clone() };
    let names = json!({
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<": 2, " ": 3}, "merges": [], "unk_token": "a"},
        "decoder": {"type": "Fuse"}, "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "version": "1.0"
    });
    let names = Tokenizer::parse(&names.to_string(), "letters").unwrap();
    let session = Session::on(FunctionModel::new(Behind { table, facts }, names));
    for name in ["a", "b", "accuracy-a", "heldout-a", "heldout-accuracy-a"] {
        session.add_reward(Letter(name.into()));
    }
    session.add_reward(trouble);
    session
}

pub fn plan() -> Plan {
    let config = Config::parse("tiny", CONFIG).unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&config, Size::Quick, &Overrides::default()).unwrap()
}

pub fn options(out: &Path, shard: &str, resume: bool) -> RunOptions {
    let shard = shard.parse().unwrap();
    RunOptions { out: Some(out.into()), resume, shard, ..RunOptions::default() }
}

/// Runs a plan while nobody listens.
pub fn run(session: &Session, plan: Plan, options: &RunOptions) -> Result<RunSummary> {
    let mut say = |_: Said<'_>| {};
    run_plan(plan, options, session, &mut Talk { say: &mut say, cancel: None })
}

/// The same in peace.
pub fn run_in_peace(plan: Plan, options: &RunOptions) -> Result<RunSummary> {
    run(&session(Trouble::default()), plan, options)
}

/// A whole run in one go, merged; the bytes of `samples.jsonl`.
pub fn uninterrupted(folder: &Path) -> Vec<u8> {
    run_in_peace(plan(), &options(folder, "0/1", false)).unwrap();
    merged(folder)
}

pub fn merged(folder: &Path) -> Vec<u8> {
    let merged = treasure_eval::commands::merge(&[folder.into()], None).unwrap();
    std::fs::read(merged.samples).unwrap()
}
