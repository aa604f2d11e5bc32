//! Which keywords mean nothing for validity, which are supported, and how their values are read.

use serde_json::{Map, Value};

use super::super::{Error, Result};

/// A schema that is an object.
pub(super) type Keywords = Map<String, Value>;

/// Keywords that never make a value invalid.
const ANNOTATIONS: [&str; 13] = [
    "title",
    "description",
    "default",
    "examples",
    "$comment",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "example",
];

/// Keywords that say something about values of one type, by type.
pub(super) const OF_TYPE: [(&str, &[&str]); 4] = [
    (
        "object",
        &["properties", "required", "additionalProperties", "minProperties", "maxProperties"],
    ),
    ("array", &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"]),
    ("string", &["minLength", "maxLength", "pattern", "format"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

/// Keywords that apply to values of any type.
pub(super) const GENERAL: [&str; 7] = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"];

pub(super) fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-")
}

/// An error at a place that names a keyword.
pub(super) fn unsupported(at: &str, keyword: &str, why: impl Into<String>) -> Error {
    Error::Unsupported { at: at.to_owned(), keyword: keyword.to_owned(), why: why.into() }
}

/// An error about a value that is not what the keyword takes.
pub(super) fn malformed(at: &str, keyword: &str, expected: &str, got: &Value) -> Error {
    Error::Schema {
        at: format!("{at}/{keyword}"),
        expected: expected.to_owned(),
        got: shortened(got),
    }
}

/// A value as far as it fits a message.
pub(super) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Refuses every keyword that is not known.
pub(super) fn check_known(keywords: &Keywords, at: &str) -> Result<()> {
    let known = |keyword: &str| {
        is_annotation(keyword)
            || GENERAL.contains(&keyword)
            || OF_TYPE.iter().any(|(_, list)| list.contains(&keyword))
    };
    match keywords.keys().find(|keyword| !known(keyword)) {
        Some(keyword) => Err(unsupported(at, keyword, why_not(keyword))),
        None => Ok(()),
    }
}

fn why_not(keyword: &str) -> &'static str {
    match keyword {
        "not" | "if" | "then" | "else" => "write the allowed alternatives with anyOf",
        "patternProperties" | "propertyNames" => "name the keys in properties",
        "additionalItems" => "use prefixItems and items",
        "contains" | "minContains" | "maxContains" => "use items or prefixItems",
        "unevaluatedProperties" | "unevaluatedItems" => "use additionalProperties or items",
        "dependentRequired" | "dependentSchemas" | "dependencies" => "use anyOf of closed objects",
        "nullable" => "use type: [.., \"null\"]",
        "contentEncoding" | "contentMediaType" | "contentSchema" => "use pattern",
        "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveRef" | "$recursiveAnchor"
        | "$vocabulary" | "id" => "refer to local definitions as #/$defs/name",
        _ => "an unknown keyword; the names of own annotations start with x-",
    }
}

/// Refuses assertions beside `keyword` except those named.
pub(super) fn check_alone(
    keywords: &Keywords,
    keyword: &str,
    except: &[&str],
    at: &str,
) -> Result<()> {
    let beside = |other: &&String| {
        *other != keyword && !is_annotation(other) && !except.contains(&other.as_str())
    };
    match keywords.keys().find(beside) {
        Some(other) => {
            let why = format!("not beside `{other}`; write the whole schema in one place");
            Err(unsupported(at, keyword, why))
        }
        None => Ok(()),
    }
}

/// A keyword that takes a size.
pub(super) fn size(keywords: &Keywords, keyword: &str, at: &str) -> Result<Option<usize>> {
    let Some(value) = keywords.get(keyword) else { return Ok(None) };
    let whole = |x: f64| (x >= 0.0 && x.fract() == 0.0 && x < 1e15).then_some(x as u64);
    let number = value.as_u64().or_else(|| value.as_f64().and_then(whole));
    match number.and_then(|number| usize::try_from(number).ok()) {
        Some(size) => Ok(Some(size)),
        None => Err(malformed(at, keyword, "a whole number from 0 on", value)),
    }
}

/// A keyword that takes a list, of at least one.
pub(super) fn list<'v>(value: &'v Value, keyword: &str, at: &str) -> Result<&'v [Value]> {
    match value.as_array() {
        Some(list) if !list.is_empty() => Ok(list),
        _ => Err(malformed(at, keyword, "a list of at least one", value)),
    }
}
