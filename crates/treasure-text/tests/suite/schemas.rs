//! JSON Schema: what is claimed holds, what is not is refused by name.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use treasure_core::{Hint as _, TokenId};
use treasure_text::{
    Error,
    automata::{
        Dfa, Limits, Pattern, SchemaOptions, Span, Tables, TokenSet, Vocabulary, WhiteSpace,
    },
};

use crate::{oracle::Random, pocket};

fn dfa(schema: &Value, white_space: WhiteSpace) -> Result<Dfa, Error> {
    let options = SchemaOptions { white_space, ..SchemaOptions::default() };
    Pattern::json_schema(schema, options).dfa(&Limits::default())
}

fn validator(schema: &Value) -> jsonschema::Validator {
    jsonschema::options().should_validate_formats(true).build(schema).unwrap()
}

/// Groups of a file in the shape of the JSON Schema Test Suite: a schema, and data that is valid or not.
/// `"written": false` marks valid data that our canonical form does not write.
fn groups() -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/schemas");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| -> Vec<(String, Value)> {
        let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let name = |group: &Value| format!("{stem}: {}", group["description"].as_str().unwrap());
        groups.into_iter().map(|group| (name(&group), group)).collect()
    };
    files.into_iter().flat_map(read).collect()
}

/// Fills a span in random order with random legal tokens.
pub fn random_text(random: &mut Random, span: &Span, vocabulary: &Vocabulary) -> Vec<u8> {
    let mut lattice = span.lattice(&vec![None; span.len()]).unwrap();
    let mut left: Vec<usize> = (0..span.len()).collect();
    let mut legal = TokenSet::default();
    while !left.is_empty() {
        let position = left.swap_remove(random.below(left.len()));
        lattice.legal(position, &mut legal);
        let tokens: Vec<TokenId> = legal.iter().collect();
        // Ends of the text are rare among so many tokens, so they get a share of their own.
        let ends: Vec<TokenId> = tokens.iter().copied().filter(|&t| vocabulary.is_eos(t)).collect();
        let from = if !ends.is_empty() && random.chance(0.2) { &ends } else { &tokens };
        lattice.reveal(position, *random.pick(from)).unwrap();
    }
    let tokens: Vec<TokenId> = lattice.fill().iter().map(|slot| slot.unwrap()).collect();
    vocabulary.text(&tokens)
}

#[test]
fn two_hundred_schemas_hold_for_given_data_and_for_every_text_that_is_written() {
    let vocabulary = pocket::vocabulary();
    let mut random = Random::new(11);
    let groups = groups();
    assert!(groups.len() >= 200, "{}", groups.len());
    let mut written = 0;
    for (index, (name, group)) in groups.iter().enumerate() {
        let schema = &group["schema"];
        let validator = validator(schema);
        let white_space = [WhiteSpace::None, WhiteSpace::OneSpace, WhiteSpace::Any][index % 3];
        let dfa = dfa(schema, white_space).unwrap_or_else(|error| panic!("{name}: {error}"));
        for test in group["tests"].as_array().unwrap() {
            let (data, valid) = (&test["data"], test["valid"] == true);
            assert_eq!(validator.is_valid(data), valid, "{name}: {data} in the file");
            let expected = valid && test["written"] != false;
            assert_eq!(dfa.accepts(data.to_string().as_bytes()), expected, "{name}: {data}");
        }
        let limits = Limits::default();
        let tables = Arc::new(Tables::build(&dfa, &vocabulary, &limits).unwrap());
        let shortest = tables.lengths().shortest;
        for _ in 0..8 {
            let span = Span::new(tables.clone(), shortest + random.below(20));
            let text = random_text(&mut random, &span, &vocabulary);
            let text = String::from_utf8(text).unwrap();
            let value: Value = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{name}: {text:?}: {error}"));
            assert!(validator.is_valid(&value), "{name}: {text}");
            written += 1;
        }
    }
    println!(
        "{} schemas: given data as in the file, {written} texts accepted by jsonschema",
        groups.len()
    );
    assert!(written >= 1600);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let refused = [
        ("not", json!({"not": {"type": "integer"}})),
        ("if", json!({"if": {"type": "integer"}, "then": {"minimum": 3}})),
        ("patternProperties", json!({"type": "object", "patternProperties": {"^a": {}}})),
        ("propertyNames", json!({"type": "object", "propertyNames": {"maxLength": 3}})),
        ("dependentRequired", json!({"type": "object", "dependentRequired": {"a": ["b"]}})),
        ("dependentSchemas", json!({"type": "object", "dependentSchemas": {"a": {}}})),
        ("dependencies", json!({"dependencies": {"a": ["b"]}})),
        ("unevaluatedProperties", json!({"type": "object", "unevaluatedProperties": false})),
        ("unevaluatedItems", json!({"type": "array", "unevaluatedItems": false})),
        ("contains", json!({"type": "array", "contains": {"type": "integer"}})),
        ("uniqueItems", json!({"type": "array", "uniqueItems": true})),
        ("additionalItems", json!({"type": "array", "additionalItems": false})),
        ("items", json!({"type": "array", "items": [{"type": "integer"}]})),
        ("allOf", json!({"allOf": [{"minimum": 1}, {"maximum": 2}]})),
        ("allOf", json!({"minimum": 1, "allOf": [{"maximum": 2}]})),
        ("anyOf", json!({"type": "object", "anyOf": [{"required": ["a"]}]})),
        ("oneOf", json!({"oneOf": [{"type": "integer"}, {"type": "number"}]})),
        ("oneOf", json!({"oneOf": [{"type": "string", "maxLength": 3}, {"type": "string"}]})),
        ("oneOf", json!({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]})),
        ("enum", json!({"enum": ["a", "bcd"], "minLength": 2})),
        ("const", json!({"const": 3, "minimum": 2})),
        ("$ref", json!({"$ref": "other.json#/a"})),
        ("$ref", json!({"$ref": "#anchor"})),
        ("$ref", json!({"$ref": "#/$defs/a", "minimum": 1, "$defs": {"a": {}}})),
        ("$anchor", json!({"$anchor": "a"})),
        ("$dynamicRef", json!({"$dynamicRef": "#a"})),
        ("multipleOf", json!({"type": "number", "multipleOf": 0.01})),
        ("multipleOf", json!({"type": "integer", "multipleOf": 1_000_003})),
        ("minimum", json!({"type": "integer", "minimum": 1e20})),
        ("format", json!({"type": "string", "format": "uri"})),
        ("pattern", json!({"type": "string", "pattern": "^(?=a)b"})),
        ("pattern", json!({"type": "string", "pattern": r"(a)\1"})),
        ("pattern", json!({"type": "string", "pattern": r"\bword\b"})),
        (
            "minProperties",
            json!({"type": "object", "minProperties": 1, "additionalProperties": {}}),
        ),
        (
            "maxProperties",
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {}}),
        ),
        ("nullable", json!({"type": "string", "nullable": true})),
        ("contentEncoding", json!({"type": "string", "contentEncoding": "base64"})),
        ("minlength", json!({"type": "string", "minlength": 3})),
    ];
    for (keyword, schema) in refused {
        let inside = json!({"type": "object", "properties": {"deep": schema}});
        for (schema, at) in [(&schema, "#"), (&inside, "#/properties/deep")] {
            let error = dfa(schema, WhiteSpace::None).unwrap_err();
            assert!(error.hint().unwrap().contains("docs/constraints.md"), "{error}");
            match error {
                Error::Unsupported { at: place, keyword: named, why } => {
                    assert_eq!((named.as_str(), place.as_str()), (keyword, at), "{schema}");
                    assert!(!why.is_empty());
                }
                other => panic!("{schema}: {other}"),
            }
        }
    }
}

#[test]
fn an_identifier_is_for_the_root_only() {
    let root = json!({"$id": "https://example.org/a", "type": "integer"});
    assert!(dfa(&root, WhiteSpace::None).is_ok());
    let inside = json!({"type": "array", "items": {"$id": "b", "type": "integer"}});
    let error = dfa(&inside, WhiteSpace::None).unwrap_err().to_string();
    assert!(error.starts_with("schema at #/items: `$id` is not supported"), "{error}");
}

#[test]
fn what_is_not_a_schema_is_an_error_with_its_place() {
    let say = |schema: Value| dfa(&schema, WhiteSpace::None).unwrap_err().to_string();
    assert_eq!(
        say(json!({"properties": {"a": {"type": "text"}}})),
        "schema at #/properties/a/type: expected null, boolean, object, array, number, integer, \
         string, got \"text\""
    );
    assert_eq!(say(json!(5)), "schema at #: expected an object, true or false, got 5");
    assert_eq!(
        say(json!({"$ref": "#/$defs/x"})),
        "schema at #/$ref: expected a place in this schema, got \"#/$defs/x\""
    );
    assert_eq!(
        say(json!({"type": "string", "minLength": -1})),
        "schema at #/minLength: expected a whole number from 0 on, got -1"
    );
    assert_eq!(
        say(json!({"type": "integer", "exclusiveMinimum": true})),
        "schema at #/exclusiveMinimum: expected a number, got true"
    );
    assert_eq!(
        say(json!({"type": "integer", "minimum": 5, "maximum": 4})),
        "schema: expected a pattern that some text matches, got one that none does"
    );
    assert_eq!(
        say(json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties":
            {"next": {"$ref": "#/$defs/a"}}, "required": ["next"]}}})),
        "schema: expected a pattern that some text matches, got one that none does within \
         recursion depth 3"
    );
    assert_eq!(
        say(json!({"type": "array", "items": {"type": "string", "maxLength": 90}, "maxItems": 90})),
        "states of the byte automaton: expected at most 20000, got more at 20002 states, from \
         89827 nodes of the pattern"
    );
    assert_eq!(
        say(
            json!({"type": "array", "items": {"type": "string", "maxLength": 900}, "maxItems": 90})
        ),
        "nodes of the pattern before it is made deterministic: expected at most 400000, got more"
    );
}

#[test]
fn white_space_stands_where_the_option_says() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {"const": 1}}}});
    let accepted = |text: &str| {
        [WhiteSpace::None, WhiteSpace::OneSpace, WhiteSpace::Any]
            .map(|space| dfa(&schema, space).unwrap().accepts(text.as_bytes()))
    };
    assert_eq!(accepted(r#"{"a":[1,1]}"#), [true; 3]);
    assert_eq!(accepted(r#" {"a": [1, 1]}"#), [false, true, true]);
    assert_eq!(accepted("\n{ \"a\" :\t[ 1 ,1 ] } "), [false, false, true]);
    assert_eq!(accepted(r#"{"a":  [1]}"#), [false, false, true]);
    assert_eq!(accepted("{}"), [true; 3]);
    assert_eq!(accepted("{ }"), [false, false, true]);
}

/// The public suite, if it is at hand: no schema that is accepted may write or accept invalid data.
///
/// `TREASURE_SCHEMA_SUITE=…/tests/draft2020-12 cargo test -p treasure-text --test suite -- --ignored public`
#[test]
#[ignore = "needs a copy of the JSON Schema Test Suite"]
fn the_public_suite_agrees_wherever_a_schema_is_supported() {
    let folder = std::env::var("TREASURE_SCHEMA_SUITE").expect("TREASURE_SCHEMA_SUITE is a folder");
    let vocabulary = pocket::vocabulary();
    let mut random = Random::new(12);
    let (mut supported, mut refused, mut valid_accepted, mut valid_all) = (0, 0, 0, 0);
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for group in groups {
            let name = format!("{}: {}", file.display(), group["description"]);
            let dfa = match dfa(&group["schema"], WhiteSpace::OneSpace) {
                Ok(dfa) => dfa,
                Err(error) => {
                    refused += 1;
                    println!("{name}: {error}");
                    continue;
                }
            };
            supported += 1;
            for test in group["tests"].as_array().unwrap() {
                let accepted = dfa.accepts(test["data"].to_string().as_bytes());
                let valid = test["valid"] == true;
                assert!(!accepted || valid, "{name}: {test}");
                valid_all += usize::from(valid);
                valid_accepted += usize::from(accepted);
            }
            let Ok(validator) = jsonschema::options().build(&group["schema"]) else { continue };
            let tables = Tables::build(&dfa, &vocabulary, &Limits::default()).unwrap();
            let tables = Arc::new(tables);
            let shortest = tables.lengths().shortest;
            for _ in 0..20 {
                let span = Span::new(tables.clone(), shortest + random.below(24));
                let text = random_text(&mut random, &span, &vocabulary);
                let value: Value = serde_json::from_slice(&text).unwrap();
                assert!(validator.is_valid(&value), "{name}: {}", String::from_utf8_lossy(&text));
            }
        }
    }
    println!(
        "{supported} supported, {refused} refused; {valid_accepted} of {valid_all} valid data written"
    );
}
