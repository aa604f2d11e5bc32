//! Takes out of a `tokenizer.json` what only belongs at the start of a text: the dummy space.

use serde_json::{Value, json};

/// Removes every rule that adds or drops a leading space; says whether there was one.
pub(super) fn strip(json: &mut Value) -> bool {
    let mut changed = false;
    if let Some(normalizer) = json.get_mut("normalizer") {
        changed |= strip_part(normalizer, "normalizers");
    }
    if let Some(pre_tokenizer) = json.get_mut("pre_tokenizer") {
        changed |= strip_part(pre_tokenizer, "pretokenizers");
    }
    if let Some(decoder) = json.get_mut("decoder") {
        changed |= strip_part(decoder, "decoders");
    }
    changed
}

fn strip_part(part: &mut Value, list: &str) -> bool {
    if let Some(parts) = part.get_mut(list).and_then(Value::as_array_mut) {
        let before = parts.len();
        parts.retain(|part| !is_only_for_the_start(part));
        let mut changed = parts.len() != before;
        for part in parts.iter_mut() {
            changed |= never_prepend(part);
        }
        return changed;
    }
    if is_only_for_the_start(part) {
        *part = Value::Null;
        return true;
    }
    never_prepend(part)
}

fn is_only_for_the_start(part: &Value) -> bool {
    match part.get("type").and_then(Value::as_str) {
        Some("Prepend") => true,
        // The decoder step that drops the dummy space again.
        Some("Strip") => part.get("start").and_then(Value::as_u64).is_some_and(|n| n > 0),
        _ => false,
    }
}

fn never_prepend(part: &mut Value) -> bool {
    match part.get("type").and_then(Value::as_str) {
        Some("Metaspace") => {
            let already = part.get("prepend_scheme").and_then(Value::as_str) == Some("never");
            if let Some(object) = part.as_object_mut() {
                object.insert("prepend_scheme".to_owned(), json!("never"));
                object.remove("add_prefix_space");
            }
            !already
        }
        Some("ByteLevel") => {
            let adds = part.get("add_prefix_space").and_then(Value::as_bool) == Some(true);
            if adds && part.get("use_regex").is_some() {
                part["add_prefix_space"] = json!(false);
            }
            adds
        }
        _ => false,
    }
}
