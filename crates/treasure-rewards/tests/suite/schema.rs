//! JSON schemas as rules: partial credit, where a document may stand, what is never fetched.

use proptest::prelude::*;
use treasure_rewards::{TextReward, rules::JsonSchema};

use crate::support::failure;

fn schema() -> JsonSchema {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["name", "age"],
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    });
    JsonSchema::new("schema", &schema, false).expect("a schema")
}

#[test]
fn a_json_document_climbs_to_one_and_only_valid_ones_get_there() {
    let steps = [
        "hello",
        "{hello there you}",
        r#"{"name": "Ann", "#,
        r#"{"name": "Ann", "age": 3"#,
        r#"{"age": "3"}"#,
        r#"{"name": "Ann"}"#,
        r#" {"name": "Ann", "age": 3} "#,
    ];
    let values = schema().score(&steps).expect("scores");
    for pair in values.windows(2) {
        assert!(pair[0] < pair[1], "{values:?}");
    }
    assert_eq!(values[6], 1.0);
    assert!(values[3] < 0.5 && values[4] > 0.5, "{values:?}");
}

#[test]
fn json_may_follow_other_text_only_where_asked() {
    let value = serde_json::json!({"type": "array"});
    let text = "The list: [1, 2]";
    let strict = JsonSchema::new("x", &value, false).expect("a schema");
    let anywhere = JsonSchema::new("x", &value, true).expect("a schema");
    assert!(strict.score(&[text]).expect("a score")[0] < 0.5);
    assert_eq!(anywhere.score(&[text]).expect("a score"), [1.0]);
}

#[test]
fn a_reference_to_another_document_is_never_fetched() {
    let directory = tempfile::tempdir().expect("a directory");
    let other = directory.path().join("other.json");
    std::fs::write(&other, "{}").expect("written");
    let file = directory.path().join("schema.json");
    for target in [format!("file://{}", other.display()), "http://127.0.0.1:9/x.json".into()] {
        std::fs::write(&file, format!(r#"{{"$ref": "{target}"}}"#)).expect("written");
        let message = failure(&format!("json-schema:{}", file.display()), &["{}"]);
        assert!(
            message.contains("not a usable JSON schema") && message.contains("never fetched"),
            "{message}"
        );
    }
}

#[test]
fn a_schema_that_cannot_be_read_is_an_error() {
    assert!(
        failure("json-schema:no-such-file.json", &["x"]).contains("cannot read no-such-file.json")
    );
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("schema.json");
    std::fs::write(&file, "{").expect("written");
    assert!(failure(&format!("json-schema:{}", file.display()), &["x"]).contains("is not JSON"));
}

proptest! {
    #[test]
    fn credit_stays_within_zero_and_one(text in "\\PC{0,80}") {
        let object = format!("{{{text}}}");
        let values = schema().score(&[&text, &object]).expect("scores");
        prop_assert!(values.iter().all(|value| (0.0..=1.0).contains(value)), "{:?}", values);
    }
}
