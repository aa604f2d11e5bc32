//! The first minute: everything works with no option beyond a prompt, on the models in the binary.
#![cfg(feature = "pocket")]

use crate::support::{rows, run};

#[test]
fn every_short_reward_name_steers_the_default_model_and_scores_its_text() {
    for reward in [
        "perplexity",
        "sentiment=negative",
        "sentiment=neutral",
        "sentiment=positive",
        "toxicity",
        "no-toxicity",
        "cola",
    ] {
        let row = rows(&run(
            &["generate", "Once upon a time", "--json", "--length", "4", "--reward", reward],
            0,
        ))
        .remove(0);
        assert_eq!(row["plan"]["model"], "pocket");
        let text = row["text"].as_str().unwrap();
        assert!(text.starts_with("Once upon a time"), "{text}");
        let scored = rows(&run(&["score", "--json", "--reward", reward, "--", text], 0)).remove(0);
        assert_eq!(scored["reward"], row["reward"], "{reward}");
        assert_eq!(row["rewards"][reward], row["reward"]);
    }
}

#[test]
fn a_judge_brings_perplexity_and_diversity_with_it() {
    let judge = "hf:pocket/judge-sentiment-heldout#negative";
    let row = rows(&run(
        &[
            "generate",
            "One day",
            "--json",
            "--length",
            "5",
            "--reward",
            "sentiment=negative",
            "--judge",
            judge,
        ],
        0,
    ))
    .remove(0);
    assert!(row["held_out"]["judges"][judge].as_f64().unwrap() < 0.0);
    assert!(row["held_out"]["perplexity"].as_f64().unwrap() > 1.0);
}

#[test]
fn the_list_names_every_shipped_model() {
    let list = rows(&run(&["models", "--json"], 0)).remove(0);
    let names: Vec<&str> =
        list["shipped"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    for name in ["denoiser", "scorer", "judge-sentiment", "judge-toxicity", "judge-acceptability"] {
        assert!(names.contains(&format!("pocket/{name}").as_str()), "{name} in {names:?}");
    }
}

#[test]
fn predict_fills_a_mask_with_a_word() {
    let found = rows(&run(&["predict", "--json", "The cat [MASK] on the mat."], 0)).remove(0);
    let top = found["positions"][0]["top"].as_array().unwrap();
    assert_eq!(top.len(), 5);
    assert!(top[0]["token"].as_str().unwrap().starts_with(' '), "{top:?}");
    let logprobs: Vec<f64> = top.iter().map(|c| c["logprob"].as_f64().unwrap()).collect();
    assert!(logprobs.is_sorted_by(|a, b| a >= b) && logprobs[0] < 0.0);
}
