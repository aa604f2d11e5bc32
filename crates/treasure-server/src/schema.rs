//! The JSON Schema of the `treasure` key, made of the library's own tables.
//!
//! Guarantee: it has every field and every method's option that a request may use, and nothing else;
//! defaults are those of a plan, largest values those that the server enforces.

use serde_json::{Map, Value, json};
use treasure::{
    FIELDS, Field, Method, OPTIONS, Plan, Request, Takes,
    core::{Potential, Resampling, SelectKind, ValueKind},
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
    let withheld = |field: &Field| WITHHELD.iter().any(|(name, _)| *name == field.name);
    for field in FIELDS.iter().filter(|field| !withheld(field)) {
        properties.insert(field.name.to_owned(), described(field));
    }
    let defaults = defaults();
    for name in Method::NAMES {
        let Some(method) = Method::named(name) else { continue };
        for (option, value) in method.options() {
            let known = properties.contains_key(&option);
            if !known {
                let mut described = option_schema(&option, &value);
                let users = Method::with_option(&option);
                let told = OPTIONS.iter().find(|told| told.name == option);
                let meaning = told.map(|told| format!("{}. ", told.help)).unwrap_or_default();
                described["description"] = format!("{meaning}Used by {}.", users.join(", ")).into();
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
fn described(field: &Field) -> Value {
    let mut schema = match field.takes {
        Takes::Text => json!({"type": "string"}),
        Takes::Count(least) => json!({"type": "integer", "minimum": least}),
        Takes::Number if field.name == "max_seconds" => {
            json!({"type": "number", "exclusiveMinimum": 0})
        }
        Takes::Number => json!({"type": "number"}),
        Takes::Choice(words) => json!({"type": "string", "enum": words}),
        Takes::Texts | Takes::Words => json!({"type": "array", "items": {"type": "string"}}),
        Takes::Flag => json!({"type": "boolean"}),
        Takes::Messages => json!({"type": "array", "items": {"type": "object"}}),
        Takes::Schema => json!({"type": ["object", "boolean"]}),
        Takes::Option => json!({}),
    };
    // What else the same thing is called here.
    let also = match field.name {
        "reward" => "; GET /v1/rewards lists what there is",
        "length" => "; `max_tokens` says the same",
        "samples" => "; `n` says the same",
        _ => "",
    };
    schema["description"] = format!("{}{also}.", field.help).into();
    schema
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
            let withheld = WITHHELD.iter().any(|(name, _)| *name == field.name);
            assert_eq!(properties.contains_key(field.name), !withheld, "{}", field.name);
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
