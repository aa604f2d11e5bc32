//! Traces → search trees small enough to put into a page.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Serialize;
use serde_json::Value;
use treasure::core::{Event, NodeEvent, PruneReason, TokenId};

use crate::{Error, Result, error::at, run::search::trace_path, store::Finished};

/// A node as the page shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Drawn {
    id: u64,
    parent: Option<u64>,
    /// The step that proposed it; none for the start.
    step: Option<usize>,
    masks: usize,
    /// Every (position, token) it revealed.
    reveals: Vec<(usize, TokenId)>,
    /// The positions that it masked again before that.
    remasked: Vec<usize>,
    rank: usize,
    value: Option<f64>,
    kept: bool,
    reason: Option<PruneReason>,
    slot: Option<usize>,
    tau: f64,
    nfe: u64,
    calls: u64,
}

/// A search tree with what is needed to read it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tree {
    /// The cell.
    pub id: String,
    /// The prompt.
    pub prompt: String,
    /// The reward's name.
    pub reward: String,
    /// The start state; null is a mask.
    start: Vec<Option<TokenId>>,
    nodes: Vec<Drawn>,
    /// The complete sequence that was returned.
    answer: Vec<TokenId>,
    final_reward: Option<f64>,
    texts: BTreeMap<String, String>,
}

/// The trees of a run, in the plan's order; traces that are not there are left out.
pub fn trees(run: &Finished) -> Result<Vec<Tree>> {
    let plan = &run.manifest.plan;
    let mut out = Vec::new();
    for cell in plan.cells().iter().filter(|cell| plan.traced(cell)) {
        let path = trace_path(&run.directory, &cell.id);
        if path.exists() {
            let mut tree = read(&path)?.pop().unwrap_or_default();
            tree.id.clone_from(&cell.id);
            tree.prompt.clone_from(&plan.prompts[cell.prompt]);
            tree.reward =
                cell.reward.map(|reward| plan.rewards[reward].name.clone()).unwrap_or_default();
            out.push(tree);
        }
    }
    Ok(out)
}

/// The trees of a trace, one a search, in the order of the file.
pub fn read(path: &Path) -> Result<Vec<Tree>> {
    read_text(&fs::read_to_string(path).map_err(at(path, "reading"))?, path)
}

/// The same of a text; `path` is where it came from, for messages.
pub fn read_text(text: &str, path: &Path) -> Result<Vec<Tree>> {
    let mut trees: Vec<Tree> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let damaged = |error: serde_json::Error| Error::Row {
            path: path.into(),
            line: index + 1,
            message: error.to_string(),
        };
        let mut event = match serde_json::from_str::<Value>(line) {
            Err(_) if trees.is_empty() => Value::Null,
            event => event.map_err(damaged)?,
        };
        // Every search begins with the version of the format; what only the caller knew may follow.
        if event["event"].is_null() && event["schema"].is_string() {
            trees.push(Tree { id: format!("search {}", trees.len() + 1), ..Tree::default() });
            continue;
        }
        let Some(tree) = trees.last_mut() else {
            return Err(Error::NoTrace { path: path.into(), got: short(line) });
        };
        match event["event"].as_str() {
            Some("sample") => {
                let (prompt, sample) = (&event["prompt_index"], &event["sample"]);
                tree.id = format!("prompt {prompt}, sample {sample}");
                tree.prompt = event["prompt"].as_str().unwrap_or_default().to_owned();
                tree.reward = event["plan"]["reward"].as_str().unwrap_or_default().to_owned();
                continue;
            }
            Some("texts") => {
                tree.texts = serde_json::from_value(event["texts"].take()).map_err(damaged)?;
                continue;
            }
            _ => {}
        }
        match serde_json::from_value(event).map_err(damaged)? {
            Event::Start { start, .. } => tree.start = start,
            Event::Node(event) => tree.nodes.push(node(event)),
            Event::End { tokens, reward, .. } => {
                (tree.answer, tree.final_reward) = (tokens, reward);
            }
            _ => {}
        }
    }
    match trees.is_empty() {
        true => Err(Error::NoTrace { path: path.into(), got: "an empty file".into() }),
        false => Ok(trees),
    }
}

/// The beginning of a line, for a message.
fn short(line: &str) -> String {
    line.chars().take(60).collect::<String>().escape_debug().to_string()
}

fn node(event: NodeEvent) -> Drawn {
    Drawn {
        id: event.id,
        parent: event.parent,
        step: event.step,
        masks: event.masks_left,
        reveals: event.position.zip(event.token).into_iter().chain(event.also).collect(),
        remasked: event.remasked,
        rank: event.rank,
        value: event.value,
        kept: event.kept,
        reason: event.reason,
        slot: event.slots.first().copied(),
        tau: event.tau,
        nfe: event.cost.nfe,
        calls: event.cost.reward_calls,
    }
}
