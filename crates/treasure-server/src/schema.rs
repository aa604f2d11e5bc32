//! The JSON Schema of the `treasure` key, made of the library's own tables.
//!
//! Guarantee: it has every field and every method's option that a request may use, and nothing else;
//! defaults are those of a plan for the reward in question, largest values those that the server enforces.

use serde_json::{Map, Value, json};
use treasure::{
    FIELDS, Field, Method, OPTIONS, Plan, Request, Takes,
    core::{Potential, Resampling, SelectKind, ValueKind},
};

use crate::{
    ask::WITHHELD,
    limits::{BUDGETS, Limits},
};

/// The schema of the `treasure` key, with such [`defaults`].
pub(crate) fn treasure(limits: &Limits, defaults: Map<String, Value>) -> Value {
    let mut properties = Map::new();
    let withheld = |field: &Field| WITHHELD.iter().any(|(name, _)| *name == field.name);
    for field in FIELDS.iter().filter(|field| !withheld(field)) {
        properties.insert(field.name.to_owned(), described(field));
    }
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

/// Every option of the plan that a request gets: what it says, and the defaults of the rest, which
/// follow its reward.
pub(crate) fn defaults(request: &Request) -> treasure::Result<Map<String, Value>> {
    let Value::Object(mut defaults) = Plan::new(request)?.to_value() else {
        return Ok(Map::new());
    };
    for own in ["judge", "template", "matches", "json_schema", "choices", "keys"] {
        defaults.shift_remove(own);
    }
    Ok(defaults)
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
        let schema = treasure(&limits, defaults(&Request::default()).unwrap());
        let properties = schema["properties"].as_object().unwrap();
        for field in FIELDS {
            let withheld = WITHHELD.iter().any(|(name, _)| *name == field.name);
            assert_eq!(properties.contains_key(field.name), !withheld, "{}", field.name);
        }
        for (name, schema) in properties {
            assert!(schema.get("type").is_some(), "{name} has no type");
        }
        // The defaults of a reward, said aloud, are the search that nobody described.
        for reward in ["perplexity", "sentiment=positive", "contains:dog", "cola + length:3..9"] {
            let plain = Request { reward: Some(reward.into()), ..Request::default() };
            let schema = treasure(&limits, defaults(&plain).unwrap());
            let said =
                ["reward", "method", "beam_width", "tree_width", "prior", "min_p", "variety"];
            let told: Map<String, Value> = said
                .iter()
                .chain(&["order", "length", "min_length", "select"])
                .map(|name| ((*name).to_owned(), schema["properties"][*name]["default"].clone()))
                .filter(|(_, default)| !default.is_null())
                .collect();
            let aloud = Plan::new(&Request::from_value(told.into()).unwrap()).unwrap();
            assert_eq!(aloud, Plan::new(&plain).unwrap(), "{reward}");
        }
        assert_eq!(properties["beam_width"]["maximum"], 64);
        assert_eq!(properties["reward"]["default"], "perplexity");
    }
}
