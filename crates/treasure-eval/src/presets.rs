//! The presets of the paper's tables and figures, embedded so that they work from any directory.

use std::path::Path;

use crate::{Error, Result, error::at};

/// The names of the presets.
pub const NAMES: [&str; 11] = [
    "main",
    "values",
    "beam-width",
    "groups",
    "diversity",
    "branching",
    "variation",
    "trajectories",
    "controls",
    "fk",
    "readable",
];

/// The 15 prompts, as a list of JSON strings.
const PROMPTS: &str = include_str!("../../../papers/treasure/prompts.jsonl");

/// The text of a preset.
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "main" => include_str!("../../../papers/treasure/main.toml"),
        "values" => include_str!("../../../papers/treasure/values.toml"),
        "beam-width" => include_str!("../../../papers/treasure/beam-width.toml"),
        "groups" => include_str!("../../../papers/treasure/groups.toml"),
        "diversity" => include_str!("../../../papers/treasure/diversity.toml"),
        "branching" => include_str!("../../../papers/treasure/branching.toml"),
        "variation" => include_str!("../../../papers/treasure/variation.toml"),
        "trajectories" => include_str!("../../../papers/treasure/trajectories.toml"),
        "controls" => include_str!("../../../papers/treasure/controls.toml"),
        "fk" => include_str!("../../../papers/treasure/fk.toml"),
        "readable" => include_str!("../../../papers/treasure/readable.toml"),
        _ => return None,
    })
}

/// The prompts of the paper's experiments, in their order.
pub fn prompts() -> Vec<String> {
    parse(Path::new("prompts.jsonl"), PROMPTS).expect("the embedded prompts are JSON Lines")
}

/// The prompts of a file: one a line, a JSON string or an object with the field `prompt`.
pub fn prompts_of(path: &Path) -> Result<Vec<String>> {
    parse(path, &std::fs::read_to_string(path).map_err(at(path, "reading prompts"))?)
}

fn parse(path: &Path, text: &str) -> Result<Vec<String>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let prompts = lines.map(|(index, line)| {
        let row = serde_json::from_str::<serde_json::Value>(line).ok();
        let prompt = row.as_ref().and_then(|row| row.as_str().or_else(|| row["prompt"].as_str()));
        prompt.map(str::to_owned).ok_or_else(|| Error::Invalid {
            what: format!("{}:{}", path.display(), index + 1),
            expected: r#"a prompt such as {"prompt": "The old dog"}"#.into(),
            got: line.chars().take(60).collect(),
        })
    });
    prompts.collect()
}
