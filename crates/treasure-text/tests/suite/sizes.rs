//! What would grow too large is refused with its size, and soon.

use serde_json::{Value, json};
use treasure_core::Hint;
use treasure_text::automata::{Cache, Limits, Pattern, SchemaOptions, Span};

use crate::oracle::{Random, vocabulary};

#[test]
fn a_table_that_would_be_too_large_is_refused_before_it_is_built() {
    let mut random = Random::new(43);
    let limits = Limits { max_product: 100, ..Limits::default() };
    let cache = Cache::new(vocabulary(&mut random, 30), limits);
    let error = cache.tables(&Pattern::regex("[ab]{9}")).unwrap_err().to_string();
    assert_eq!(error, "states × vocabulary: expected at most 100, got 10 × 30 = 300");
    let limits = Limits { max_states: 50, ..Limits::default() };
    let error = Pattern::regex("[ab]{99}").dfa(&limits).unwrap_err().to_string();
    assert!(error.contains("at most 50"), "{error}");
}

/// What is far too large is refused from an estimate; what only turns out to be is stopped after a number of
/// steps that does not depend on the pattern.
#[test]
fn a_pattern_that_would_take_long_to_build_is_refused_with_its_size() {
    let say = |pattern: &Pattern| pattern.dfa(&Limits::default()).unwrap_err();
    for (regex, message) in [
        (r"\w{60000}", "nodes of the regex: expected at most 400000, got about "),
        (r"((\w{0,40}){0,40}){0,40}", "nodes of the regex: expected at most 400000, got about "),
        (r"(a{0,200}){0,200}{0,200}", "nodes of the regex: expected at most 400000, got about "),
        (r"(\w{0,39}){0,9}", "automaton: expected at most"),
        (r"(.*a.{14}|.*b.{15}|x.{0,40}.*)*", "automaton: expected at most"),
        (r"(?-u:\b)(.*a.{14}|.*b.{15}|x.{0,40}.*)*", "automaton: expected at most"),
    ] {
        let error = say(&Pattern::regex(regex));
        assert!(error.to_string().contains(message), "{regex}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("bound repetitions")), "{error}");
    }
    // Recursion that leaves no node behind, and alternatives that are compared each with each.
    let names = ["a", "b", "c", "d", "e", "f"];
    let all: Vec<Value> = names.iter().map(|n| json!({"$ref": format!("#/$defs/{n}")})).collect();
    let defs = |schema: &Value| names.iter().map(|n| ((*n).to_owned(), schema.clone())).collect();
    let defs: serde_json::Map<String, Value> = defs(&json!({"anyOf": all}));
    let error = say(&Pattern::json_schema(
        &json!({"$ref": "#/$defs/a", "$defs": defs}),
        SchemaOptions::default(),
    ));
    assert!(error.to_string().starts_with("schemas that are entered"), "{error}");
    let mut deep = json!({"type": "string"});
    let mut defs = serde_json::Map::new();
    for level in 0..7 {
        defs.insert(format!("d{level}"), deep);
        let again = json!({"$ref": format!("#/$defs/d{level}")});
        deep = json!({"anyOf": vec![again; 40]});
    }
    let schema = json!({"oneOf": [deep, {"type": "number"}], "$defs": defs});
    let error = say(&Pattern::json_schema(&schema, SchemaOptions::default()));
    assert!(error.to_string().contains("may both hold"), "{error}");
}

#[test]
fn states_and_positions_that_a_search_could_not_hold_are_refused() {
    let mut random = Random::new(44);
    let limits = Limits { max_cells: 1000, ..Limits::default() };
    let cache = Cache::new(vocabulary(&mut random, 30), limits);
    let span = |len: usize| Span::new(cache.tables(&Pattern::regex("[ab]{1,99}")).unwrap(), len);
    assert!(span(8).check().is_ok());
    let error = span(40).check().unwrap_err().to_string();
    assert!(error.starts_with("states × positions: expected at most 1000, got 4"), "{error}");
}
