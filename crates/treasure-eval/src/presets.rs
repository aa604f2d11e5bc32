//! The presets of the paper's tables and figures, embedded so that they work from any directory.

/// The names of the presets.
pub const NAMES: [&str; 10] = [
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
        _ => return None,
    })
}

/// The prompts of the paper's experiments, in their order.
pub fn prompts() -> Vec<String> {
    PROMPTS
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let row: serde_json::Value =
                serde_json::from_str(line).expect("the embedded prompt list is JSON Lines");
            row["prompt"].as_str().expect("each row has a prompt").to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Size};

    #[test]
    fn there_are_fifteen_prompts_and_each_begins_with_two_newlines() {
        let prompts = prompts();
        assert_eq!(prompts.len(), 15);
        assert!(prompts.iter().all(|prompt| prompt.starts_with("\n\n")));
        assert_eq!(prompts[12], "\n\nThe president of the country");
    }

    #[test]
    fn every_preset_parses_under_its_own_name_and_has_all_three_sizes() {
        for name in NAMES {
            let config = Config::load(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(config.name, name);
            for size in [Size::Paper, Size::Pocket, Size::Quick] {
                assert!(config.size.contains_key(&size), "{name} lacks {}", size.name());
            }
        }
    }

    #[test]
    fn every_setting_of_every_preset_has_a_reason_beside_it() {
        for name in NAMES {
            for (number, line) in text(name).expect("listed").lines().enumerate() {
                let setting = line.contains('=') && !line.trim_start().starts_with('#');
                assert!(!setting || line.contains("# "), "{name}.toml:{}: {line}", number + 1);
            }
        }
    }
}
