//! Traces → search trees small enough to put into a page.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Serialize;
use serde_json::Value;

use crate::{Error, Result, error::at, run::search::trace_path, store::Finished};

/// A node as the page shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    id: u64,
    parent: Option<u64>,
    /// The step that proposed it; none for the start.
    step: Option<u64>,
    masks: u64,
    /// Every (position, token) it revealed.
    reveals: Vec<(u64, u64)>,
    rank: u64,
    value: Option<f64>,
    kept: bool,
    reason: Option<String>,
    slot: Option<u64>,
    tau: f64,
    nfe: u64,
    calls: u64,
}

/// A search tree with what is needed to read it.
#[derive(Clone, Debug, Serialize)]
pub struct Tree {
    /// The cell.
    pub id: String,
    /// The prompt.
    pub prompt: String,
    /// The reward's name.
    pub reward: String,
    /// The start state; null is a mask.
    start: Vec<Option<u64>>,
    nodes: Vec<Node>,
    /// The complete sequence that was returned.
    answer: Vec<u64>,
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
            let mut tree = read(&path)?;
            tree.id.clone_from(&cell.id);
            tree.prompt.clone_from(&plan.prompts[cell.prompt]);
            tree.reward =
                cell.reward.map(|reward| plan.rewards[reward].name.clone()).unwrap_or_default();
            out.push(tree);
        }
    }
    Ok(out)
}

fn read(path: &Path) -> Result<Tree> {
    let text = fs::read_to_string(path).map_err(at(path, "reading"))?;
    let mut tree = Tree {
        id: String::new(),
        prompt: String::new(),
        reward: String::new(),
        start: Vec::new(),
        nodes: Vec::new(),
        answer: Vec::new(),
        final_reward: None,
        texts: BTreeMap::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let event: Value = serde_json::from_str(line).map_err(|error| Error::Row {
            path: path.into(),
            line: index + 1,
            message: error.to_string(),
        })?;
        match event["event"].as_str() {
            Some("start") => {
                tree.start = list(&event["start"]).iter().map(Value::as_u64).collect();
            }
            Some("node") => tree.nodes.push(node(&event)),
            Some("end") => {
                tree.answer = list(&event["tokens"]).iter().filter_map(Value::as_u64).collect();
                tree.final_reward = event["reward"].as_f64();
            }
            Some("texts") => {
                let texts = event["texts"].as_object().into_iter().flatten();
                tree.texts = texts
                    .map(|(id, text)| (id.clone(), text.as_str().unwrap_or_default().to_owned()))
                    .collect();
            }
            _ => {}
        }
    }
    Ok(tree)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn node(event: &Value) -> Node {
    let number = |key: &str| event[key].as_u64();
    let mut reveals = Vec::new();
    if let (Some(position), Some(token)) = (number("position"), number("token")) {
        reveals.push((position, token));
    }
    for also in list(&event["also"]) {
        if let (Some(position), Some(token)) = (also[0].as_u64(), also[1].as_u64()) {
            reveals.push((position, token));
        }
    }
    Node {
        id: number("id").unwrap_or_default(),
        parent: number("parent"),
        step: number("step"),
        masks: number("masks_left").unwrap_or_default(),
        reveals,
        rank: number("rank").unwrap_or_default(),
        value: event["value"].as_f64(),
        kept: event["kept"].as_bool().unwrap_or_default(),
        reason: event["reason"].as_str().map(str::to_owned),
        slot: list(&event["slots"]).first().and_then(Value::as_u64),
        tau: event["tau"].as_f64().unwrap_or_default(),
        nfe: event["cost"]["nfe"].as_u64().unwrap_or_default(),
        calls: event["cost"]["reward_calls"].as_u64().unwrap_or_default(),
    }
}
