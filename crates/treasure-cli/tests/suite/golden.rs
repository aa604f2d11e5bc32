//! The reference code's numbers, through the command line with `--ids`.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{golden, rows, run, stderr, stdout};

/// The tensors of an `io.safetensors`: shape and values as f64.
struct Tensors {
    header: Value,
    data: Vec<u8>,
}

impl Tensors {
    fn read(family: &str) -> Self {
        let bytes = fs::read(format!("{}/io.safetensors", golden(family))).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        Self { header, data: bytes[8 + length..].to_vec() }
    }

    fn bytes(&self, name: &str) -> (Vec<usize>, &[u8]) {
        let entry = &self.header[name];
        let number = |value: &Value| value.as_u64().unwrap() as usize;
        let shape = entry["shape"].as_array().unwrap().iter().map(number).collect();
        let span: Vec<usize> =
            entry["data_offsets"].as_array().unwrap().iter().map(number).collect();
        (shape, &self.data[span[0]..span[1]])
    }

    fn ids(&self, name: &str) -> (Vec<usize>, Vec<i64>) {
        let (shape, bytes) = self.bytes(name);
        let ids =
            bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
        (shape, ids)
    }

    fn floats(&self, name: &str) -> (Vec<usize>, Vec<f64>) {
        let (shape, bytes) = self.bytes(name);
        let floats = bytes
            .chunks_exact(4)
            .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
            .collect();
        (shape, floats)
    }
}

fn meta(family: &str) -> Value {
    serde_json::from_slice(&fs::read(format!("{}/meta.json", golden(family))).unwrap()).unwrap()
}

/// The directory of a family as stored, and once more with the newer spelling of its config where there is one.
struct Spellings {
    directories: Vec<String>,
    _newer: TempDir,
}

impl Spellings {
    fn of(family: &str) -> Self {
        let (stored, newer) = (golden(family), TempDir::new().unwrap());
        let mut directories = vec![stored.clone()];
        let place = |name: &str| newer.path().join(name);
        if fs::copy(format!("{stored}/config.v5.json"), place("config.json")).is_ok() {
            fs::copy(format!("{stored}/model.safetensors"), place("model.safetensors")).unwrap();
            directories.push(newer.path().display().to_string());
        }
        Self { directories, _newer: newer }
    }
}

#[test]
fn most_families_are_stored_in_both_spellings_of_the_config() {
    let families = ["bert_mlm", "roberta_cls", "bert_cls", "distilbert_cls", "gpt2", "llama"];
    let both = families.iter().filter(|family| Spellings::of(family).directories.len() == 2);
    assert_eq!(both.count(), families.len());
}

fn log_softmax(logits: &[f64], skip: Option<usize>) -> Vec<f64> {
    let kept = |(id, value): (usize, &f64)| {
        if Some(id) == skip { f64::NEG_INFINITY } else { *value }
    };
    let logits: Vec<f64> = logits.iter().enumerate().map(kept).collect();
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = logits.iter().map(|x| (x - most).exp()).sum::<f64>().ln() + most;
    logits.iter().map(|x| x - total).collect()
}

/// Every masked position of every stored row, all tokens.
fn predictions_match(family: &str, model: &str, logits_name: &str) {
    let io = Tensors::read(family);
    let meta = meta(family);
    let mask = meta["mask_id"].as_i64().unwrap();
    let atol = meta["suggested_atol"].as_f64().unwrap();
    let (shape, ids) = io.ids("input_ids");
    let (_, logits) = io.floats(logits_name);
    let vocabulary = logits.len() / ids.len();
    let mut compared = 0;
    for row in 0..shape[0] {
        let slots = &ids[row * shape[1]..(row + 1) * shape[1]];
        if !slots.contains(&mask) {
            continue;
        }
        let words: Vec<String> = slots
            .iter()
            .map(|&id| if id == mask { "M".to_string() } else { id.to_string() })
            .collect();
        let (ids, mask_text) = (words.join(","), mask.to_string());
        let top = vocabulary.to_string();
        let mut args = vec!["predict", "--json", "--model", model, "--ids", &ids, "--top", &top];
        args.extend(["--mask-id", &mask_text]);
        let sigma;
        if meta["time_conditioning"] == true {
            sigma = io.floats("sigma").1[row].to_string();
            args.extend(["--sigma", &sigma]);
        }
        let found = rows(&run(&args, 0)).remove(0);
        for position in found["positions"].as_array().unwrap() {
            let at = position["position"].as_u64().unwrap() as usize;
            assert_eq!(slots[at], mask);
            let start = (row * shape[1] + at) * vocabulary;
            let expected = log_softmax(&logits[start..start + vocabulary], Some(mask as usize));
            for choice in position["top"].as_array().unwrap() {
                let id = choice["id"].as_u64().unwrap() as usize;
                assert_ne!(id as i64, mask, "the mask has no probability");
                let difference = (choice["logprob"].as_f64().unwrap() - expected[id]).abs();
                assert!(difference <= atol, "{family} row {row} at {at} id {id}: {difference}");
                compared += 1;
            }
        }
    }
    assert!(compared > vocabulary, "{family}: {compared} numbers compared");
}

#[test]
fn every_denoiser_family_predicts_the_reference_numbers() {
    for (family, logits) in [
        ("mdlm", "logits"),
        ("mdlm_sigma", "logits"),
        ("llada", "logits"),
        ("llada_gqa", "logits"),
        ("dream", "shifted_logits"),
        ("diffugpt", "shifted_logits"),
        ("bert_mlm", "logits"),
        ("bert_mlm_legacy", "logits"),
        ("modernbert_mlm", "logits"),
    ] {
        for model in &Spellings::of(family).directories {
            predictions_match(family, model, logits);
        }
    }
}

#[test]
fn every_classifier_family_scores_the_reference_numbers() {
    for family in ["roberta_cls", "bert_cls", "distilbert_cls"] {
        let io = Tensors::read(family);
        let atol = meta(family)["suggested_atol"].as_f64().unwrap();
        let spellings = Spellings::of(family);
        let cases =
            spellings.directories.iter().flat_map(|model| (0..3).map(move |row| (model, row)));
        for (model, row) in cases {
            let ids: Vec<String> =
                io.ids(&format!("row{row}_input_ids")).1.iter().map(i64::to_string).collect();
            let expected = log_softmax(&io.floats(&format!("row{row}_logits")).1, None);
            let spec = format!("hf:{model}#1");
            let found =
                rows(&run(&["score", "--json", "--reward", &spec, "--ids", &ids.join(",")], 0));
            let labels = found[0]["detail"]["labels"].as_object().unwrap();
            assert_eq!(labels.len(), expected.len());
            for (got, expected) in labels.values().zip(&expected) {
                assert!((got.as_f64().unwrap() - expected).abs() <= atol, "{family}");
            }
            assert_eq!(found[0]["reward"], *labels.values().nth(1).unwrap());
        }
    }
}

#[test]
fn every_scorer_family_scores_the_reference_numbers() {
    for family in ["gpt2", "gpt2_bare", "llama", "llama_rope3"] {
        let io = Tensors::read(family);
        let atol = meta(family)["suggested_atol"].as_f64().unwrap();
        let (shape, ids) = io.ids("input_ids");
        let (_, nll) = io.floats("nll");
        let spellings = Spellings::of(family);
        let rows_of = |model| (0..shape[0]).map(move |row| (model, row));
        for (model, row) in spellings.directories.iter().flat_map(rows_of) {
            let tokens = &ids[row * shape[1]..(row + 1) * shape[1]];
            let text: Vec<String> = tokens.iter().map(i64::to_string).collect();
            let nll = &nll[row * (shape[1] - 1)..(row + 1) * (shape[1] - 1)];
            let mean = nll.iter().sum::<f64>() / nll.len() as f64;
            let spec = format!("ppl:{model}");
            let found =
                rows(&run(&["score", "--json", "--reward", &spec, "--ids", &text.join(",")], 0));
            let got = found[0]["detail"]["nll_mean"].as_f64().unwrap();
            assert!((got - mean).abs() <= atol, "{family} row {row}: {got} and {mean}");
            assert_eq!(found[0]["detail"]["tokens"], nll.len());
            assert_eq!(found[0]["reward"].as_f64().unwrap(), -got);
        }
    }
}

#[test]
fn a_chat_answer_is_steered_by_a_reward_model_of_one_logit() {
    let (model, judge) = (golden("llada_chat"), format!("raw:hf:{}", golden("llama_reward")));
    let ask = |more: &[&str]| {
        let args = ["generate", "Tell me about rain.", "--chat", "--system", "Be kind.", "--json"];
        let own = ["--model", &model, "--reward", &judge, "--length", "16", "--seed", "3"];
        rows(&run(&[&args, &own[..], more].concat(), 0)).remove(0)
    };
    let alone = ask(&["--method", "llada", "--block", "8", "--steps", "8"]);
    let steered = ask(&["--block", "8", "--steps", "8"]);
    assert!(steered["reward"].as_f64() > alone["reward"].as_f64(), "{steered} {alone}");
    let prompt = steered["prompt"].as_str().unwrap();
    assert!(
        prompt.starts_with("<|startoftext|><|start_header_id|>system<|end_header_id|>\n\nBe kind.")
    );
    // The row's reward is what `score` says of its text.
    let text = steered["text"].as_str().unwrap();
    let scored = rows(&run(&["score", "--reward", &judge, "--json", text], 0)).remove(0);
    assert_eq!(scored["reward"], steered["reward"]);
    // The same answer as through every other door.
    let told = fs::read_to_string(format!("{model}/answer.json")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let args =
        ["generate", told["prompt"].as_str().unwrap(), "--chat", "--json", "--model", &model];
    let own = ["--reward", &judge, "--length", "16", "--block", "8", "--steps", "8", "--seed", "3"];
    let answer = rows(&run(&[&args[..], &own].concat(), 0)).remove(0);
    println!("{} earns {}", answer["continuation"], answer["reward"]);
    assert_eq!(answer["continuation"], told["answer"]);
    assert!((answer["reward"].as_f64().unwrap() - told["reward"].as_f64().unwrap()).abs() < 1e-4);
    let said = stderr(&run(&["generate", "a", "--chat", "--reward", "length:1..9"], 2));
    assert!(said.contains("pocket has no chat template") && said.contains("hint:"), "{said}");
}

#[test]
fn an_inspection_says_what_it_takes_to_run_a_denoiser() {
    let what = rows(&run(&["models", "inspect", &golden("llada_chat"), "--json"], 0)).remove(0);
    assert_eq!(what["chat"], true);
    assert_eq!(what["end_ids"].as_array().unwrap().len(), 2);
    let needs = &what["needs"];
    assert!(needs["memory_bytes"].as_u64().unwrap() > 100_000);
    let seconds = |method: &str| needs["methods"][method]["seconds_a_token"].as_f64().unwrap();
    assert!(seconds("llada") > 0.0 && seconds("treasure") > seconds("llada"));
    // In the precision it would run in: the same weights in half the memory, or a little more than a quarter.
    let held = |precision| {
        let args = ["models", "inspect", &golden("llada_chat"), "--json", "--precision", precision];
        let needs = rows(&run(&args, 0)).remove(0)["needs"].take();
        assert_eq!(needs["precision"], precision);
        needs["memory_bytes"].as_u64().unwrap()
    };
    let (whole, int8) = (needs["memory_bytes"].as_u64().unwrap(), held("int8"));
    assert_eq!(2 * held("bf16"), whole);
    assert!(4 * int8 > whole && 2 * int8 < whole, "{int8} of {whole}");
    let said = stdout(&run(&["models", "inspect", &golden("llada_chat")], 0));
    assert!(said.contains("s a token"), "{said}");
    let judge = rows(&run(&["models", "inspect", &golden("llama_reward"), "--json"], 0)).remove(0);
    assert_eq!((&judge["architecture"], judge.get("needs")), (&"llama-classifier".into(), None));
}

#[test]
fn predict_refuses_a_denoiser_whose_numbers_are_none() {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden("mdlm")).unwrap().flatten() {
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let (model, file) = (dir.path().display().to_string(), dir.path().join("model.safetensors"));
    let good = fs::read(&file).unwrap();
    let data = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    // One weight that is no number, and weights that are but make none.
    for (value, from) in [(f32::NAN, good.len() - 4), (f32::INFINITY, data), (3e38, data)] {
        let mut bytes = good.clone();
        bytes[from..].chunks_exact_mut(4).for_each(|b| b.copy_from_slice(&value.to_le_bytes()));
        fs::write(&file, bytes).unwrap();
        let output = run(&["predict", "--model", &model, "--ids", "5,M,7", "--json"], 2);
        let said = rows(&output).remove(0);
        assert!(said["error"]["message"].is_string() && said.get("top").is_none(), "{said}");
        assert!(stderr(&output).contains("finite"), "{value}: {}", stderr(&output));
    }
}
