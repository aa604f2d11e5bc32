//! The JSON Schema of the `treasure` key, made of the library's own tables.
//!
//! Guarantee: it has every field and every method's option that a request may use, and nothing else;
//! defaults are those of a plan, largest values those that the server enforces.

use serde_json::{Map, Value, json};
use treasure::{
    FIELDS, Method, Plan, Preset, Request,
    core::{AnswerKind, Potential, Resampling, SelectKind, ValueKind},
};

use crate::{
    ask::WITHHELD,
    limits::{BUDGETS, Limits},
};

/// A reward that steers, so that the defaults are those of a steered search.
const STEERING: &str = "sentiment=positive";

/// The schema of the `treasure` key.
pub(crate) fn treasure(limits: &Limits) -> Value {
    let mut properties = Map::new();
    for field in FIELDS.iter().filter(|field| !WITHHELD.iter().any(|(name, _)| name == *field)) {
        properties.insert((*field).to_owned(), described(field));
    }
    let defaults = defaults();
    for name in Method::NAMES {
        let Some(method) = Method::named(name) else { continue };
        for (option, value) in method.options() {
            let known = properties.contains_key(&option);
            if !known {
                let mut described = option_schema(&option, &value);
                let users = Method::with_option(&option);
                if let Some(described) = described.as_object_mut() {
                    described.insert(
                        "description".into(),
                        format!("Used by {}.", users.join(", ")).into(),
                    );
                }
                properties.insert(option, described);
            }
        }
    }
    for (name, schema) in &mut properties {
        let Some(schema) = schema.as_object_mut() else { continue };
        if let Some(default) = defaults.get(name).filter(|default| !default.is_null()) {
            schema.insert("default".into(), default.clone());
        }
        // A budget of the operator's lowers what was asked for; it refuses nothing.
        if let Some(most) = limits.most(name).filter(|_| !BUDGETS.contains(&name.as_str())) {
            schema.insert("maximum".into(), most.into());
        }
    }
    let trace = json!({
        "type": "boolean",
        "default": false,
        "description": "Frames carry their tokens and the events of the search; needs stream and diffusing.",
    });
    properties.insert("trace".into(), trace);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "treasure",
        "description": "What to search for and how. Every field may be left out.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Every option of a plan that steers, and the reward of one that says nothing.
fn defaults() -> Map<String, Value> {
    let steering = Request { reward: Some(STEERING.into()), ..Request::default() };
    let plan = |request: &Request| match Plan::new(request).map(|plan| plan.to_value()) {
        Ok(Value::Object(plan)) => plan,
        _ => Map::new(),
    };
    let mut defaults = plan(&steering);
    if let Some(reward) = plan(&Request::default()).remove("reward") {
        defaults.insert("reward".into(), reward);
    }
    for own in ["judge", "template", "matches", "json_schema", "choices", "keys"] {
        defaults.shift_remove(own);
    }
    defaults
}

/// A field that is no method's option.
fn described(field: &str) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let count = |least: u64, description: &str| json!({"type": "integer", "minimum": least, "description": description});
    match field {
        "template" => text("A text with holes instead of a prompt: `The [MASK:5] was [MASK:12].`"),
        "text" => text("A finished text to make better, with the method `refine`."),
        "keep" => text("What must not change in it, as a regular expression."),
        "matches" => text("The continuation matches this regular expression, whole."),
        "json_schema" => json!({
            "type": ["object", "boolean"],
            "description": "The continuation is JSON that is valid under this schema.",
        }),
        "choices" => json!({
            "type": "array",
            "items": {"type": "string"},
            "description": "The continuation is one of these.",
        }),
        "reward" => text(
            "What to aim for, such as `sentiment=negative + 0.5*perplexity`; GET /v1/rewards lists what there is.",
        ),
        "judge" => json!({
            "type": "array",
            "items": {"type": "string"},
            "description": "Rewards that the search does not see; the answer has their scores.",
        }),
        "screen" => text("A cheap reward that ranks children first."),
        "length" => count(1, "Tokens to generate; `max_tokens` says the same."),
        "min_length" => count(0, "No end of text before this many tokens."),
        "samples" => count(1, "Texts for each prompt; `n` says the same."),
        "seed" => count(0, "The seed of all randomness."),
        "preset" => {
            let names = [Preset::Plain, Preset::Paper, Preset::Fk].map(Preset::name);
            json!({"type": "string", "enum": names, "description": "Whose conventions hold."})
        }
        "method" => {
            json!({"type": "string", "enum": Method::NAMES, "description": "How to search."})
        }
        "answer" => json!({
            "type": "string",
            "enum": names(AnswerKind::ALL),
            "description": "Which text is handed back.",
        }),
        "max_nfe" => count(0, "Budget: sequences run through the denoiser."),
        "max_reward_calls" => count(0, "Budget: texts scored."),
        "max_seconds" => json!({
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Budget: seconds.",
        }),
        "target_reward" => {
            json!({"type": "number", "description": "Stop once the reward is there."})
        }
        "keys" => count(0, "The version of the key rule, as plans carry it."),
        // A field that is new to this table is still offered.
        _ => json!({}),
    }
}

fn names<T: std::fmt::Display>(all: &[T]) -> Vec<String> {
    all.iter().map(T::to_string).collect()
}

/// A method's option, from its default.
fn option_schema(option: &str, default: &Value) -> Value {
    let choice = |names: Vec<String>| json!({"type": "string", "enum": names});
    match (option, default) {
        ("beam_width" | "tree_width", _) => json!({
            "type": ["integer", "string"],
            "minimum": 1,
            "pattern": r"^(\d+|(linear|cosine):\d+\.\.\d+|\d+(,\d+)*,?)$",
        }),
        ("value", _) => choice(names(ValueKind::ALL)),
        ("select", _) => choice(names(SelectKind::ALL)),
        ("potential", _) => choice(names(Potential::ALL)),
        ("resample", _) => choice(names(Resampling::ALL)),
        (_, Value::Number(number)) if number.is_u64() => json!({"type": "integer", "minimum": 0}),
        (_, Value::Number(_)) => json!({"type": "number"}),
        (_, Value::String(_)) => json!({"type": "string"}),
        (_, Value::Bool(_)) => json!({"type": "boolean"}),
        ("resample_every", _) => json!({"type": "integer", "minimum": 1}),
        // Shares and thresholds that are off by default.
        (_, Value::Null) => json!({"type": ["number", "null"]}),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_field_has_a_type_and_every_default_fits_a_request() {
        let limits = Limits::new(&BTreeMap::new()).unwrap();
        let schema = treasure(&limits);
        let properties = schema["properties"].as_object().unwrap();
        for field in FIELDS {
            let withheld = WITHHELD.iter().any(|(name, _)| name == field);
            assert_eq!(properties.contains_key(*field), !withheld, "{field}");
        }
        for (name, schema) in properties {
            assert!(schema.get("type").is_some(), "{name} has no type");
        }
        // The defaults of the tree search, said aloud, are the search that nobody described.
        let said = ["beam_width", "tree_width", "prior", "min_p", "variety", "order", "length"];
        let own: Map<String, Value> = said
            .iter()
            .map(|name| ((*name).to_owned(), properties[*name]["default"].clone()))
            .chain([("reward".to_owned(), STEERING.into())])
            .collect();
        let aloud = Plan::new(&Request::from_value(own.into()).unwrap()).unwrap();
        let plain = Request { reward: Some(STEERING.into()), ..Request::default() };
        assert_eq!(aloud, Plan::new(&plain).unwrap());
        assert_eq!(properties["beam_width"]["maximum"], 64);
        assert_eq!(properties["reward"]["default"], "perplexity");
    }
}
