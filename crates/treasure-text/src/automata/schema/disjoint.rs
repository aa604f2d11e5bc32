//! Whether the alternatives of `oneOf` exclude each other, so that what one of them allows is valid exactly once.

use serde_json::Value;

use super::{
    super::Result,
    keywords::{Keywords, unsupported},
    reference::resolve,
    value::has_type,
};

/// How far references and members are followed.
const DEPTH: usize = 8;

/// Pairs of schemas that are compared; beyond, they count as alternatives that may overlap.
const COMPARED: usize = 100_000;

const TYPES: [&str; 6] = ["null", "boolean", "object", "array", "number", "string"];

/// Refuses alternatives that may overlap.
pub(super) fn check_disjoint(root: &Value, schemas: &[Value], at: &str) -> Result<()> {
    let mut left = COMPARED;
    for (i, one) in schemas.iter().enumerate() {
        for (j, other) in schemas.iter().enumerate() {
            if i != j && !excludes(root, one, other, DEPTH, &mut left) {
                let why = format!(
                    "alternatives {} and {} may both hold; give them different types or a required \
                     key with different constants, or use anyOf",
                    i.min(j),
                    i.max(j)
                );
                return Err(unsupported(at, "oneOf", why));
            }
        }
    }
    Ok(())
}

/// Whether nothing written for `one` is valid under `other`, as far as can be told.
fn excludes(root: &Value, one: &Value, other: &Value, depth: usize, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return false };
    *left = fewer;
    if one == &Value::Bool(false) || other == &Value::Bool(false) {
        return true;
    }
    let (Some(a), Some(b), Some(depth)) =
        (one.as_object(), other.as_object(), depth.checked_sub(1))
    else {
        return false;
    };
    if let Some(reference) = a.get("$ref") {
        return resolve(root, reference, "").is_ok_and(|a| excludes(root, a, other, depth, left));
    }
    if let Some(reference) = b.get("$ref") {
        return resolve(root, reference, "").is_ok_and(|b| excludes(root, one, b, depth, left));
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(parts) = a.get(keyword).and_then(Value::as_array) {
            return parts.iter().all(|a| excludes(root, a, other, depth, left));
        }
        if let Some(parts) = b.get(keyword).and_then(Value::as_array) {
            return parts.iter().all(|b| excludes(root, one, b, depth, left));
        }
    }
    if let Some(values) = fixed(a) {
        return values.iter().all(|value| cannot_be(value, b));
    }
    if let Some(values) = fixed(b) {
        return values.iter().all(|value| cannot_be(value, a));
    }
    let types = |keywords| move |name: &&&str| allows_type(keywords, name);
    let shared: Vec<&&str> = TYPES.iter().filter(types(a)).filter(types(b)).collect();
    shared.iter().all(|name| match **name {
        "object" => objects_exclude(root, a, b, depth, left),
        "number" => numbers_exclude(a, b),
        _ => false,
    })
}

/// The values of `const` or `enum`.
fn fixed(keywords: &Keywords) -> Option<Vec<&Value>> {
    let only = keywords.get("const").map(|value| vec![value]);
    only.or_else(|| Some(keywords.get("enum")?.as_array()?.iter().collect()))
}

/// Whether a value is certainly not valid: by type, or because others are listed.
fn cannot_be(value: &Value, keywords: &Keywords) -> bool {
    if let Some(values) = fixed(keywords) {
        return values.iter().all(|other| !same(value, other));
    }
    let names = TYPES.iter().chain(&["integer"]);
    !names.into_iter().any(|name| has_type(value, name) && allows_exactly(keywords, name))
}

/// Equality of JSON values, in which 1 and 1.0 are equal.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let shared = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(shared)
        }
        _ => one == other,
    }
}

fn type_names(keywords: &Keywords) -> Option<Vec<&str>> {
    match keywords.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn allows_exactly(keywords: &Keywords, name: &str) -> bool {
    type_names(keywords).is_none_or(|names| names.contains(&name))
}

/// Whether a type is allowed; an integer is a number.
fn allows_type(keywords: &Keywords, name: &str) -> bool {
    allows_exactly(keywords, name) || (name == "number" && allows_exactly(keywords, "integer"))
}

fn has_required(keywords: &Keywords, key: &str) -> bool {
    let names = keywords.get("required").and_then(Value::as_array);
    names.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(key)))
}

fn objects_exclude(
    root: &Value,
    a: &Keywords,
    b: &Keywords,
    depth: usize,
    left: &mut usize,
) -> bool {
    let property = |keywords: &'_ Keywords, key: &str| {
        keywords.get("properties").and_then(|all| all.get(key)).cloned()
    };
    let required = |keywords: &Keywords| -> Vec<String> {
        let names = keywords.get("required").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let closed = |keywords: &Keywords| {
        keywords.get("additionalProperties").is_some_and(|rest| rest == &Value::Bool(false))
    };
    // What is written for `a` has only its named keys unless it says otherwise.
    let written_closed = closed(a) || !a.contains_key("additionalProperties");
    let lacks = |key: &String| property(a, key).is_none() && !has_required(a, key);
    if written_closed && required(b).iter().any(lacks) {
        return true;
    }
    required(a).iter().any(|key| match (property(a, key), property(b, key)) {
        (_, None) => closed(b),
        // The key stands, so what `b` says about it counts whether or not `b` requires it.
        (Some(a), Some(b)) => excludes(root, &a, &b, depth, left),
        (None, Some(_)) => false,
    })
}

fn numbers_exclude(a: &Keywords, b: &Keywords) -> bool {
    let number = |keywords: &Keywords, keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
    let below = |a: &Keywords, b: &Keywords| {
        let high = [number(a, "maximum"), number(a, "exclusiveMaximum")];
        let low = [number(b, "minimum"), number(b, "exclusiveMinimum")];
        high.iter().enumerate().any(|(i, high)| {
            low.iter().enumerate().any(|(j, low)| match (high, low) {
                // Equal bounds exclude each other if one of them is exclusive.
                (Some(high), Some(low)) => high < low || (high == low && i + j > 0),
                _ => false,
            })
        })
    };
    below(a, b) || below(b, a)
}
