//! Requests of any shape become a plan or an error; a plan reads as a request for itself.

use std::time::Duration;

use serde_json::{Map, Value, json};
use treasure::{FIELDS, Method, Plan, Request};

use super::{Choices, Seen, fuzz};

/// A value of a kind that an option might have, or might not.
pub fn value(choices: &mut Choices<'_>, usual: &Value) -> Value {
    const WORDS: &[&str] = &[
        "top",
        "nested",
        "max",
        "diff",
        "sum",
        "ancestral",
        "first-hitting",
        "greedy",
        "remdm",
        "confidence",
        "random",
        "resubstitution",
        "previous",
        "posterior",
        "previous-argmax",
        "uct",
        "puct",
        "worst",
        "always",
        "never",
        "best-seen",
        "final",
        "draw",
        "systematic",
        "adaptive",
        "linear:8..2",
        "8..2",
        "cosine:1..4",
        "4",
        "",
        "auto",
        "int8",
        "f32",
    ];
    match choices.below(12) {
        0 => json!(choices.number()),
        1 => json!(choices.float()),
        2 => json!(*choices.pick(WORDS)),
        3 => json!(choices.text(6)),
        4 => json!(choices.chance(128)),
        5 => Value::Null,
        6 => json!([choices.number(), choices.text(3)]),
        7 => json!({"method": choices.pick(Method::NAMES), "steps": choices.small(9)}),
        // Near what it is.
        _ => match usual {
            Value::Number(number) if number.is_u64() => json!(choices.small(9)),
            Value::Number(_) => json!(choices.below(20) as f64 / 10.0),
            Value::String(_) => json!(*choices.pick(WORDS)),
            Value::Bool(_) => json!(choices.chance(128)),
            _ => json!(choices.small(9)),
        },
    }
}

/// A method with some of its options, and seldom with another's.
pub fn method(choices: &mut Choices<'_>, fields: &mut Map<String, Value>) {
    let name = *choices.pick(Method::NAMES);
    fields.insert("method".into(), name.into());
    let usual = Method::named(name).unwrap().options();
    for (option, usual) in &usual {
        if choices.chance(70) {
            fields.insert(option.clone(), value(choices, usual));
        }
    }
    if choices.chance(20) {
        let other: &str = choices.pick::<&str>(Method::NAMES);
        let other = Method::named(other).unwrap().options();
        if let Some((option, usual)) = other.iter().nth(choices.below(other.len().max(1))) {
            fields.insert(option.clone(), value(choices, usual));
        }
    }
}

fn field(choices: &mut Choices<'_>, name: &str) -> Value {
    const REWARDS: &[&str] = &[
        "perplexity",
        "sentiment=negative",
        "contains:a,b",
        "regex:'a+'",
        "cola + 0.5*perplexity",
        "min(cola, toxicity)",
        "product(prob:cola, length:2..9)",
        "exec:'true'",
        "own:mine",
        "length:9..2",
        "hf:x#y",
        "distinct:2",
    ];
    match name {
        "length" | "min_length" | "samples" => json!(choices.small(70)),
        "seed" | "max_nfe" | "max_reward_calls" | "mask_id" => json!(choices.number()),
        "max_seconds" | "target_reward" => json!(choices.float()),
        "reward" | "screen" => match choices.chance(60) {
            true => json!(choices.text(9)),
            false => json!(*choices.pick(REWARDS)),
        },
        "judge" => json!([*choices.pick(REWARDS)]),
        "preset" => json!(choices.pick(&["plain", "paper", "fk", "Plain"])),
        "keys" => json!(choices.below(4)),
        "choices" => json!([choices.text(4), choices.text(4)]),
        "matches" | "keep" => json!(choices.text(9)),
        "json_schema" => json!({"type": *choices.pick(&["string", "integer", "object", "x"])}),
        _ => json!(choices.text(9)),
    }
}

fn request(choices: &mut Choices<'_>) -> Value {
    let mut fields = Map::new();
    method(choices, &mut fields);
    for name in FIELDS.iter().map(|field| field.name).filter(|name| *name != "method") {
        if choices.chance(24) {
            let value = match choices.chance(24) {
                true => value(choices, &Value::Null),
                false => field(choices, name),
            };
            fields.insert(name.into(), value);
        }
    }
    if choices.chance(8) {
        fields.insert(choices.text(4), choices.number().into());
    }
    fields.into()
}

#[test]
fn a_request_of_any_shape_is_a_plan_or_an_error() {
    fuzz("requests", Duration::from_secs(5), |choices| {
        let asked = request(choices);
        let plan = Request::from_value(asked).and_then(|request| Plan::new(&request));
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => return Seen::refused(error),
        };
        let again = Plan::new(&Request::from_value(plan.to_value()).unwrap()).unwrap();
        assert_eq!(again.to_value(), plan.to_value(), "a plan reads as a request for itself");
        let line = plan.line();
        assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
        Seen::deep(format!("{} {:?} {:?}", plan.method.name(), plan.preset, plan.answer))
    });
}
