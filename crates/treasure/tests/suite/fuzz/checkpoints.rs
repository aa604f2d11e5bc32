//! Checkpoints changed behind a valid header: tensors renamed, reshaped, moved, made of other numbers.

use std::{path::Path, time::Duration};

use serde_json::{Map, Value, json};
use treasure::models::{Classifier, LoadOptions, Resolver};

use super::{Choices, Seen, files, fuzz};

/// A checkpoint in two parts: what its header says and the numbers behind it.
struct Parts {
    header: Map<String, Value>,
    data: Vec<u8>,
    config: Map<String, Value>,
}

fn read(folder: &Path) -> Parts {
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    Parts {
        header: serde_json::from_slice(&bytes[8..8 + length]).unwrap(),
        data: bytes[8 + length..].to_vec(),
        config: serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap())
            .unwrap(),
    }
}

fn write(folder: &Path, header: &Map<String, Value>, data: &[u8], config: &Map<String, Value>) {
    let header = serde_json::to_vec(header).unwrap();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], &header, data].concat();
    std::fs::write(folder.join("model.safetensors"), bytes).unwrap();
    std::fs::write(folder.join("config.json"), serde_json::to_vec(config).unwrap()).unwrap();
}

fn change_tensor(header: &mut Map<String, Value>, choices: &mut Choices<'_>) {
    let names: Vec<String> = header.keys().cloned().collect();
    let name = choices.pick(&names).clone();
    let other = choices.pick(&names).clone();
    match choices.below(7) {
        0 => drop(header.remove(&name)),
        1 => {
            if let Some(tensor) = header.remove(&name) {
                header.insert(format!("{name}{}", choices.text(3)), tensor);
            }
        }
        2 => drop(header.insert(name, header[&other].clone())),
        3 => {
            header[&name]["dtype"] = json!(choices.pick(&["F32", "F16", "BF16", "I64", "F64", "X"]))
        }
        4 => header[&name]["shape"] = json!([choices.number(), choices.number()]),
        5 => {
            let end = choices.number();
            header[&name]["data_offsets"] = json!([choices.number(), end]);
        }
        _ => {
            if let Some(shape) = header[&name]["shape"].as_array_mut() {
                shape.reverse();
            }
        }
    }
}

fn change_config(config: &mut Map<String, Value>, choices: &mut Choices<'_>) {
    let names: Vec<String> = config.keys().cloned().collect();
    let name = choices.pick(&names).clone();
    let value = match choices.below(7) {
        0 => json!(choices.number()),
        1 => json!(choices.float()),
        2 => json!(choices.text(4)),
        3 => Value::Null,
        4 => json!([1, "x"]),
        5 => json!({"0": choices.text(4), "7": "x"}),
        _ => json!(choices.pick(&["gelu", "relu", "silu", "bert", "distilbert", "roberta"])),
    };
    config.insert(name, value);
}

/// Numbers that are none, or that no product of them is one.
fn change_data(data: &mut [u8], choices: &mut Choices<'_>) {
    let places = data.len() / 4;
    for _ in 0..1 + choices.below(3) {
        let at = 4 * (choices.below(places.min(60_000)) * (places / 60_000).max(1));
        let number = *choices.pick(&[f32::NAN, f32::INFINITY, f32::MAX, -f32::MAX, 0.0, 1e30]);
        data[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
}

#[test]
fn checkpoints_changed_behind_their_headers_are_refused_or_give_numbers() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../treasure-models/tests/golden");
    let families: Vec<Parts> = ["bert_cls", "roberta_cls", "distilbert_cls"]
        .map(|family| read(&golden.join(family)))
        .into();
    let folder = files::folder();
    let resolver = Resolver::new().offline();
    let spec = folder.path().display().to_string();
    fuzz("checkpoints", Duration::from_secs(10), |choices| {
        let family = choices.pick(&families);
        let Parts { mut header, mut data, mut config } = Parts {
            header: family.header.clone(),
            data: family.data.clone(),
            config: family.config.clone(),
        };
        for _ in 0..1 + choices.below(2) {
            match choices.below(4) {
                0 => change_tensor(&mut header, choices),
                1 => change_config(&mut config, choices),
                _ => change_data(&mut data, choices),
            }
        }
        if choices.chance(10) {
            data.truncate(choices.below(data.len()));
        }
        write(folder.path(), &header, &data, &config);
        let model = match Classifier::load(&resolver, &spec, &LoadOptions::default()) {
            Ok(model) => model,
            Err(error) => return Seen::refused(error),
        };
        let length = model.max_len().clamp(1, 6);
        let ids: Vec<u32> = (0..length as u32).map(|id| id + 2).collect();
        match model.log_probs_ids(&[&ids]) {
            Ok(rows) => {
                assert!(
                    rows[0].iter().all(|number| number.is_finite() && *number <= 1e-6),
                    "{rows:?}"
                );
                Seen::deep(format!("numbers of {}", model.family()))
            }
            Err(error) => Seen { past_the_reader: true, ..Seen::refused(error) },
        }
    });
}
