//! Files of weights and tokenizers made by their grammars, with a slip now and then: pickles in archives, GGUF, indices of
//! shards, tokenizers.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use treasure::models::{Source, Tokenizer, weights::Weights};

use super::{Choices, Seen, files, fuzz};

mod gguf;
mod torch;

use gguf::gguf;
use torch::torch;

/// Pieces with one of them lost, doubled, moved or replaced by another.
fn slip(pieces: &mut Vec<Vec<u8>>, others: &[&[u8]], choices: &mut Choices<'_>) {
    if pieces.is_empty() || !choices.chance(120) {
        return;
    }
    for _ in 0..1 + choices.below(3) {
        let (at, to) = (choices.below(pieces.len()), choices.below(pieces.len()));
        match choices.below(5) {
            0 if pieces.len() > 1 => drop(pieces.remove(at)),
            1 => pieces.insert(at, pieces[to].clone()),
            2 => pieces.swap(at, to),
            3 => pieces[at] = choices.pick(others).to_vec(),
            _ => pieces.insert(at, choices.pick(others).to_vec()),
        }
    }
}

/// Two shards of one tensor each, and an index that may say so.
fn index(folder: &Path, choices: &mut Choices<'_>) -> Seen {
    const SHARDS: &[&str] = &[
        "one.safetensors",
        "two.safetensors",
        "three.safetensors",
        "",
        "..",
        "../one",
        "/etc/passwd",
        "C:x",
    ];
    let shard = |usual: &str, choices: &mut Choices<'_>| match choices.chance(60) {
        true => (*choices.pick(SHARDS)).to_owned(),
        false => usual.to_owned(),
    };
    let mut map =
        json!({"a": shard("one.safetensors", choices), "b": shard("two.safetensors", choices)});
    match choices.below(8) {
        0 => map["c"] = json!(shard("one.safetensors", choices)),
        1 => drop(map.as_object_mut().unwrap().remove("a")),
        2 => map["a"] = json!(choices.number()),
        3 => map = json!({}),
        _ => {}
    }
    let mut text = json!({"metadata": {}, "weight_map": map}).to_string();
    if choices.chance(20) {
        text.truncate(choices.below(30));
    }
    std::fs::write(folder.join("model.safetensors.index.json"), text).unwrap();
    for (file, name) in [("one", "a"), ("two", "b")] {
        let header =
            json!({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
        std::fs::write(folder.join(format!("{file}.safetensors")), bytes).unwrap();
    }
    match Weights::open(&Source::Directory(folder.into())) {
        Ok(weights) => {
            Seen::deep(format!("shards with {}", "tensor ".repeat(weights.tensors().len())))
        }
        Err(error) => Seen::refused(error),
    }
}

/// A value somewhere in a document, replaced.
fn replace(value: &mut Value, choices: &mut Choices<'_>) {
    let inner = match value {
        Value::Object(fields) if !fields.is_empty() && choices.chance(220) => {
            let count = fields.len();
            if choices.chance(12) {
                let name = fields.keys().nth(choices.below(count)).cloned().unwrap();
                return drop(fields.remove(&name));
            }
            fields.values_mut().nth(choices.below(count))
        }
        Value::Array(items) if !items.is_empty() && choices.chance(220) => {
            let count = items.len();
            items.get_mut(choices.below(count))
        }
        _ => None,
    };
    match inner {
        Some(inner) => replace(inner, choices),
        None => {
            *value = match choices.below(6) {
                0 => json!(choices.number()),
                1 => json!(choices.text(3)),
                2 => Value::Null,
                3 => json!([]),
                4 => {
                    json!({"type": *choices.pick(&["Whitespace", "ByteLevel", "BPE", "WordPiece", "Strip", "Fuse"])})
                }
                _ => json!(choices.float()),
            }
        }
    }
}

fn tokenizer(documents: &[Value], choices: &mut Choices<'_>) -> Seen {
    let mut document = choices.pick(documents).clone();
    for _ in 0..1 + choices.below(2) {
        replace(&mut document, choices);
    }
    match Tokenizer::parse(&document.to_string(), "tokenizer.json") {
        Ok(tokenizer) => {
            let text = choices.text(8);
            let ids = tokenizer.encode(&text, choices.chance(128));
            let told = match ids.map_err(Seen::refused) {
                Ok(ids) => tokenizer.decode(&ids).map_or("no text", |_| "a text"),
                Err(_) => "no ids",
            };
            let _ = tokenizer.decode(&[0, 5, 99, 4_000_000]);
            Seen::deep(format!("tokenizer with {told}"))
        }
        Err(error) => Seen::refused(error),
    }
}

#[test]
fn weights_and_tokenizers_of_any_make_are_read_or_refused() {
    let folder = files::folder();
    let places = ["torch", "shards"].map(|name| folder.path().join(name));
    places.iter().for_each(|place| std::fs::create_dir(place).unwrap());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../treasure-models/tests/golden");
    let documents = ["roberta_cls", "qwen2_reward", "llada_chat"].map(|family| {
        let text = std::fs::read(golden.join(family).join("tokenizer.json"));
        serde_json::from_slice(&text.unwrap()).unwrap()
    });
    fuzz("containers", Duration::from_secs(10), |choices| match choices.below(4) {
        0 => torch(&places[0], choices),
        1 => gguf(&folder.path().join("model.gguf"), choices),
        2 => index(&places[1], choices),
        _ => tokenizer(&documents, choices),
    });
}
