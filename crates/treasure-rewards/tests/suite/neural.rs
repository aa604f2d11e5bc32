//! Classifiers, scorers and likelihood bounds: golden numbers, windows, labels, batches.

use std::{path::Path, sync::Arc};

use crate::support::{build, build_with, close, failure, quick, score};
use proptest::prelude::*;
use treasure_core::Key;
use treasure_models::{Classifier, LoadOptions, ModelStore, Resolver, Scorer};
use treasure_rewards::{
    Composite, Range, RewardOptions, Rewards, Spec, TextOptions, TextReward, neural::NelboReward,
};
use treasure_testkit::JointTable;
use treasure_text::Conventions;

fn roberta() -> String {
    format!("{}/../treasure-models/tests/golden/roberta_cls", env!("CARGO_MANIFEST_DIR"))
}

/// Texts with the log-probabilities that transformers gave (the golden folders of treasure-models).
const GOLDEN: [(&str, [f64; 3]); 3] = [
    (
        "\n\nThe lake was quiet, and the horse was near the road.",
        [-2.98898363, -2.612854, -0.132005185],
    ),
    ("Once upon a time the president said: it's good!", [-2.44537926, -2.57633281, -0.177627355]),
    ("I don't like the movie.", [-2.73901725, -1.89901137, -0.241244465]),
];

fn near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-5, "{left} is not {right}");
}

#[test]
fn a_classifier_gives_the_log_probability_of_its_label() {
    let texts = GOLDEN.map(|(text, _)| text);
    for (index, label) in ["LABEL_0", "label_1", "2"].iter().enumerate() {
        let values = score(&format!("hf:{}#{label}", roberta()), &texts);
        for (value, (_, golden)) in values.iter().zip(GOLDEN) {
            near(*value, golden[index]);
        }
    }
}

#[test]
fn a_classifier_gives_probability_or_accuracy_if_asked() {
    let (text, golden) = GOLDEN[0];
    near(score(&format!("prob:hf:{}#1", roberta()), &[text])[0], golden[1].exp());
    assert_eq!(score(&format!("accuracy:hf:{}#1", roberta()), &[text]), [0.0]);
    assert_eq!(score(&format!("accuracy:hf:{}#2", roberta()), &[text]), [1.0]);
}

#[test]
fn a_raw_label_is_its_logit() {
    let classifier =
        Classifier::load(&Resolver::new(), &roberta(), &LoadOptions::default()).expect("loads");
    let (text, _) = GOLDEN[0];
    let ids = classifier.ids(text).expect("ids");
    let logits = classifier.logits_ids(&[&ids]).expect("a row").remove(0);
    let reward = build(&format!("raw:hf:{}#1", roberta()));
    assert_eq!(reward.score(&[text]).expect("a score"), [f64::from(logits[1])]);
    let row = reward.breakdown(&[text]).expect("a row").remove(0);
    assert_eq!(row.total, f64::from(logits[1]));
    assert_eq!(row.detail.expect("detail")["logits"]["LABEL_2"], f64::from(logits[2]));
    assert_eq!(reward.breakdown_ids(&[&ids]).expect("a row")[0].total, f64::from(logits[1]));
    assert_eq!(reward.range(), Range::ANY);
}

#[test]
fn a_reward_model_of_one_output_gives_a_log_probability_or_its_raw_number() {
    let directory = tempfile::tempdir().expect("a directory");
    one_output(directory.path());
    let name = directory.path().display().to_string();
    let texts = [GOLDEN[0].0, GOLDEN[1].0];
    let raw = score(&format!("raw:hf:{name}"), &texts);
    assert_eq!(score(&format!("raw:hf:{name}#0"), &texts), raw);
    assert_ne!(raw[0], raw[1]);
    for spec in [format!("hf:{name}"), format!("hf:{name}#0")] {
        for (value, raw) in score(&spec, &texts).iter().zip(&raw) {
            close(*value, -(-raw).exp().ln_1p());
        }
    }
}

/// The classifier of three labels with only the last row of its output.
fn one_output(directory: &Path) {
    let from = Path::new(&roberta()).to_path_buf();
    for file in std::fs::read_dir(&from).expect("a directory") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), directory.join(file.file_name())).expect("copied");
    }
    let config = std::fs::read_to_string(from.join("config.json")).expect("a config");
    let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    config["id2label"] = serde_json::json!({"0": "LABEL_0"});
    config["label2id"] = serde_json::json!({"LABEL_0": 0});
    config["num_labels"] = serde_json::json!(1);
    std::fs::write(directory.join("config.json"), config.to_string()).expect("written");
    let weights = std::fs::read(from.join("model.safetensors")).expect("weights");
    let length = u64::from_le_bytes(weights[..8].try_into().expect("eight bytes")) as usize;
    let header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&weights[8..8 + length]).expect("a header");
    let (mut kept, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, mut entry) in header {
        if name == "__metadata__" {
            continue;
        }
        let offset = |at: usize| entry["data_offsets"][at].as_u64().expect("a number") as usize;
        let mut bytes = &weights[8 + length..][offset(0)..offset(1)];
        if name.starts_with("classifier.out_proj") {
            bytes = &bytes[bytes.len() / 3 * 2..];
            entry["shape"][0] = serde_json::json!(1);
        }
        entry["data_offsets"] = serde_json::json!([data.len(), data.len() + bytes.len()]);
        data.extend(bytes);
        kept.insert(name, entry);
    }
    let header = serde_json::Value::Object(kept).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(directory.join("model.safetensors"), file).expect("written");
}

#[test]
fn a_text_that_was_cut_is_said_to_be() {
    let classifier =
        Classifier::load(&Resolver::new(), &roberta(), &LoadOptions::default()).expect("loads");
    let long = "The lake was quiet. ".repeat(60);
    let all = classifier.tokenizer().expect("a tokenizer").encode(&long, true).expect("ids").len();
    assert!(all > classifier.max_len());
    let reward = build(&format!("hf:{}#1", roberta()));
    let rows = reward.breakdown(&[&long, "The lake."]).expect("rows");
    let detail = rows[0].detail.clone().expect("detail");
    assert_eq!(detail["truncated"], true);
    assert_eq!(detail["tokens"], classifier.max_len());
    assert_eq!(detail["of_tokens"], all);
    assert_eq!(rows[0].total, reward.score(&[&long]).expect("a score")[0]);
    assert_eq!(reward.cut(&long).expect("ids"), Some(classifier.max_len()));
    assert_eq!(reward.cut("The lake.").expect("ids"), None);
    assert!(rows[1].detail.as_ref().expect("detail").get("truncated").is_none());

    let directory = tempfile::tempdir().expect("a directory");
    tiny_gpt2(directory.path(), true);
    let reward = build(&format!("ppl:{}", directory.path().display()));
    let rows = reward.breakdown(&[&long, "The lake."]).expect("rows");
    let detail = rows[0].detail.clone().expect("detail");
    assert_eq!((&detail["truncated"], &detail["tokens"]), (&true.into(), &63.into()));
    assert_eq!(reward.cut(&long).expect("ids"), Some(63));
    assert_eq!(reward.cut("The lake.").expect("ids"), None);
    assert!(rows[1].detail.as_ref().expect("detail").get("truncated").is_none());
}

#[test]
fn a_breakdown_lists_every_label() {
    let (text, golden) = GOLDEN[1];
    let row = build(&format!("hf:{}#0", roberta())).breakdown(&[text]).expect("a row").remove(0);
    let labels = &row.detail.expect("detail")["labels"];
    for (index, wanted) in golden.iter().enumerate() {
        near(labels[format!("LABEL_{index}")].as_f64().expect("a number"), *wanted);
    }
}

#[test]
fn an_unknown_label_or_none_lists_the_known_ones() {
    let message = failure(&format!("hf:{}#happy", roberta()), &["x"]);
    assert!(
        message.contains("\"happy\"") && message.contains("LABEL_0, LABEL_1, LABEL_2"),
        "{message}"
    );
    assert!(failure(&format!("hf:{}#3", roberta()), &["x"]).contains("LABEL_2"));
    assert!(failure(&format!("hf:{}", roberta()), &["x"]).contains("LABEL_2"));
    let message = failure("hf:no/such/dir#x", &["x"]);
    assert!(
        message.contains("cannot load the classifier") && message.contains("hint"),
        "{message}"
    );
}

#[test]
fn ids_are_scored_as_they_are() {
    let classifier =
        Classifier::load(&Resolver::new(), &roberta(), &LoadOptions::default()).expect("loads");
    let ids = classifier.ids(GOLDEN[2].0).expect("ids");
    let reward = build(&format!("hf:{}#1", roberta()));
    let row = reward.breakdown_ids(&[&ids]).expect("a row").remove(0);
    near(row.total, GOLDEN[2].1[1]);
    assert!(build("regex:a").breakdown_ids(&[&[1, 2]]).is_err(), "a rule has no vocabulary");
}

fn fk() -> RewardOptions {
    RewardOptions { conventions: Conventions::Fk, ..quick() }
}

#[test]
fn the_reference_window_of_a_classifier_is_48_tokens_and_two_special_ones() {
    let classifier =
        Classifier::load(&Resolver::new(), &roberta(), &LoadOptions::default()).expect("loads");
    let text = &format!(
        "\n\nThe lake was quiet.{0}{0}",
        " The lake was quiet, and the horse was near the road."
    );
    let ids = classifier.tokenizer().expect("a tokenizer").encode(text, false).expect("ids");
    assert!((49..64).contains(&ids.len()), "a little more than the window: {}", ids.len());
    let framed: Vec<u32> = [&[0], &ids[..48], &[2]].concat();
    let wanted = classifier.log_probs_ids(&[&framed]).expect("a row")[0][2];
    let reward = build_with(&format!("hf:{}#2", roberta()), fk()).expect("a reward");
    assert_eq!(reward.score(&[text]).expect("a score"), [wanted]);

    // What follows the window does not enter the view, what lies inside it does.
    let seen = reward.seen(text).expect("a window");
    assert!(seen.len() < text.len(), "{seen:?}");
    let longer = format!("{text} good day to you");
    assert_eq!(reward.seen(&longer).expect("a window"), seen);
    assert_eq!(reward.score(&[seen]).expect("a score"), [wanted]);
    assert_ne!(reward.seen(&text.replace("lake", "road")).expect("a window"), seen);
}

#[test]
fn two_windows_share_a_classifier() {
    let store = Arc::new(ModelStore::new(Resolver::new()));
    let built = |options| {
        let spec = format!("hf:{}#2", roberta()).parse::<Spec>().expect("a spec");
        Rewards::new(store.clone(), options).build(&spec).expect("a reward")
    };
    let (narrow, wide) = (built(fk()), built(quick()));
    assert_eq!(store.loaded(), 1);
    let text = &format!(
        "\n\nThe lake was quiet.{0}{0}",
        " The lake was quiet, and the horse was near the road."
    );
    let score = |reward: &Composite| reward.score(&[text]).expect("a score");
    assert_ne!(score(&narrow), score(&wide), "each looks through its own window");
    assert_eq!(score(&narrow), score(&build_with(&format!("hf:{}#2", roberta()), fk()).unwrap()));
    assert_eq!(store.loaded(), 1);
}

/// Writes a small GPT-2 with made-up weights and the classifier's tokenizer.
fn tiny_gpt2(directory: &Path, bos: bool) {
    const WIDTH: usize = 8;
    let config = serde_json::json!({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 211, "n_positions": 64,
        "n_embd": WIDTH, "n_layer": 1, "n_head": 2, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "bos_token_id": 0, "eos_token_id": 2,
    });
    let tokens = serde_json::json!({"bos_token": if bos { Some("<s>") } else { None }});
    std::fs::write(directory.join("config.json"), config.to_string()).expect("written");
    std::fs::write(directory.join("tokenizer_config.json"), tokens.to_string()).expect("written");
    std::fs::copy(format!("{}/tokenizer.json", roberta()), directory.join("tokenizer.json"))
        .expect("copied");
    let shapes: [(&str, &[usize]); 16] = [
        ("wte.weight", &[211, WIDTH]),
        ("wpe.weight", &[64, WIDTH]),
        ("h.0.ln_1.weight", &[WIDTH]),
        ("h.0.ln_1.bias", &[WIDTH]),
        ("h.0.attn.c_attn.weight", &[WIDTH, 3 * WIDTH]),
        ("h.0.attn.c_attn.bias", &[3 * WIDTH]),
        ("h.0.attn.c_proj.weight", &[WIDTH, WIDTH]),
        ("h.0.attn.c_proj.bias", &[WIDTH]),
        ("h.0.ln_2.weight", &[WIDTH]),
        ("h.0.ln_2.bias", &[WIDTH]),
        ("h.0.mlp.c_fc.weight", &[WIDTH, 4 * WIDTH]),
        ("h.0.mlp.c_fc.bias", &[4 * WIDTH]),
        ("h.0.mlp.c_proj.weight", &[4 * WIDTH, WIDTH]),
        ("h.0.mlp.c_proj.bias", &[WIDTH]),
        ("ln_f.weight", &[WIDTH]),
        ("ln_f.bias", &[WIDTH]),
    ];
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    let mut key = Key::new(7);
    for (name, shape) in shapes {
        let start = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            key = key.fold(1);
            data.extend(((key.uniform() - 0.5) as f32 * 2.0).to_le_bytes());
        }
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(format!("transformer.{name}"), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    std::fs::write(directory.join("model.safetensors"), file).expect("written");
}

#[test]
fn a_scorer_gives_minus_the_mean_nll_of_every_token_after_bos() {
    let directory = tempfile::tempdir().expect("a directory");
    for bos in [true, false] {
        tiny_gpt2(directory.path(), bos);
        let name = directory.path().display().to_string();
        let scorer = Scorer::load(&Resolver::new(), &name, &LoadOptions::default()).expect("loads");
        let text = "The lake was quiet.";
        let ids = scorer.tokenizer().expect("a tokenizer").encode(text, false).expect("ids");
        let framed: Vec<u32> = bos.then_some(0).into_iter().chain(ids.iter().copied()).collect();
        let nll = scorer.nll(&[&framed]).expect("a row").remove(0);
        assert_eq!(nll.len(), ids.len() - usize::from(!bos));
        let mean = nll.iter().sum::<f64>() / nll.len() as f64;
        let row = build(&format!("ppl:{name}")).breakdown(&[text]).expect("a row").remove(0);
        assert_eq!(row.total, -mean);
        assert_eq!(row.detail, Some(serde_json::json!({"nll_mean": mean, "tokens": nll.len()})));
    }
    let message = failure(&format!("ppl:{}", directory.path().display()), &[""]);
    assert!(message.contains("no token to score"), "{message}");
}

#[test]
fn the_reference_scorer_sees_19_tokens_of_the_stripped_text_at_ln_2() {
    let directory = tempfile::tempdir().expect("a directory");
    tiny_gpt2(directory.path(), true);
    let name = directory.path().display().to_string();
    let scorer = Scorer::load(&Resolver::new(), &name, &LoadOptions::default()).expect("loads");
    let text = "\n\nThe lake was quiet, and the horse was near the road. I don't like it. ";
    let ids = scorer.tokenizer().expect("a tokenizer").encode(text.trim(), false).expect("ids");
    assert!(ids.len() > 22, "{}", ids.len());
    let framed: Vec<u32> = [&[0], &ids[..19]].concat();
    let nll = scorer.nll(&[&framed]).expect("a row").remove(0);
    let wanted = -std::f64::consts::LN_2 * nll.iter().sum::<f64>() / 19.0;
    let reward = build_with(&format!("ppl:{name}"), fk()).expect("a reward");
    close(reward.score(&[text]).expect("a score")[0], wanted);
    let seen = reward.seen(text).expect("a window");
    assert!(seen.len() < text.trim_end().len(), "{seen:?}");
    assert_eq!(reward.seen(&format!("{text} more")).expect("a window"), seen);
    close(reward.score(&[seen]).expect("a score")[0], wanted);
}

#[test]
fn the_reference_preset_reads_100_generated_tokens_or_50_for_scorers() {
    let options =
        |spec: &str| TextOptions::under(Conventions::Fk, &spec.parse::<Spec>().expect("a spec"));
    assert_eq!((options("cola").trim, options("cola").clean_up), (Some(100), true));
    assert_eq!(options("perplexity").trim, Some(50));
    let plain = TextOptions::under(Conventions::Plain, &"cola".parse().expect("a spec"));
    assert_eq!(plain, Default::default());
}

#[test]
fn a_likelihood_bound_is_exact_for_a_model_whose_conditionals_agree() {
    // Any-order chain rule: with exact conditionals the bound is the log-likelihood itself.
    let table = Arc::new(JointTable::random(3, 4, Key::new(5)));
    let tokenise = |text: &str| Ok(text.bytes().map(|byte| u32::from(byte - b'0')).collect());
    let reward = NelboReward::with_denoiser("nelbo", table.clone(), 0, tokenise);
    for text in ["0000", "0121", "2102"] {
        let ids: Vec<u32> = text.bytes().map(|byte| u32::from(byte - b'0')).collect();
        let value = reward.score(&[text]).expect("a score")[0];
        close(value, table.prob(&ids).ln() / 4.0);
    }
    assert!(reward.score(&[""]).is_err(), "nothing to score");
}

#[test]
fn a_likelihood_bound_of_a_longer_text_is_the_same_each_time() {
    let rows: Vec<Vec<f64>> = (0..8).map(|_| vec![0.5, 0.5]).collect();
    let table = Arc::new(JointTable::product(&rows));
    let tokenise = |text: &str| Ok(text.bytes().map(|byte| u32::from(byte - b'0')).collect());
    let reward = NelboReward::with_denoiser("nelbo", table, 1, tokenise);
    let first = reward.explain(&["01011010"]).expect("a row");
    // Every token has probability one half, whatever is masked.
    close(first[0].value, -std::f64::consts::LN_2);
    assert_eq!(first[0].detail.as_ref().expect("detail")["tokens"], 7);
    assert_eq!(first, reward.explain(&["01011010"]).expect("a row"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn batch_sizes_change_no_bit(size in 1usize..6, count in 1usize..9) {
        let spec = format!("hf:{}#1", roberta());
        let texts: Vec<String> = (0..count).map(|n| format!("the lake {}", "was quiet ".repeat(n % 4))).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let bits = |reward: Arc<Composite>| -> Vec<u64> {
            reward.score(&texts).expect("scores").into_iter().map(f64::to_bits).collect()
        };
        let options = RewardOptions { batch: Some(size), cache_bytes: 0, ..quick() };
        prop_assert_eq!(bits(build(&spec)), bits(build_with(&spec, options).expect("a reward")));
    }

    #[test]
    fn a_cut_text_scores_as_the_whole(words in proptest::collection::vec("[a-z\n .,']{1,6}", 10..40)) {
        let text = words.concat();
        let reward = build_with(&format!("hf:{}#1", roberta()), fk()).expect("a reward");
        let seen = reward.seen(&text).expect("a window");
        let raw = |text: &str| reward.breakdown(&[text]).expect("a row")[0].total.to_bits();
        prop_assert_eq!(raw(&text), raw(seen));
    }
}
