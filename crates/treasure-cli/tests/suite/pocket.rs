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

#[test]
fn a_finished_text_is_refined_and_the_row_says_what_it_was() {
    let text = "The old dog was very sad.";
    let refine = |more: &[&str]| {
        let mut args = vec!["refine", text, "--json", "--reward", "sentiment=positive"];
        args.extend(["--rounds", "2", "--keep", "old dog"]);
        args.extend(more);
        rows(&run(&args, 0)).remove(0)
    };
    let row = refine(&[]);
    assert_eq!((&row["before"], &row["method"]), (&text.into(), &"refine".into()));
    assert!(row["text"].as_str().unwrap().contains("old dog"), "{row}");
    assert!(row["reward"].as_f64() > row["reward_before"].as_f64(), "{row}");
    let scored =
        rows(&run(&["score", "--json", "--reward", "sentiment=positive", text], 0)).remove(0);
    assert_eq!(scored["reward"], row["reward_before"]);
    assert_eq!(
        (&row["plan"]["share_from"], &row["plan"]["keep"]),
        (&0.5.into(), &"old dog".into())
    );
    let narrow = refine(&["--share", "0.3..0.2", "--pick", "worst"]);
    assert_eq!(
        (&narrow["plan"]["share_from"], &narrow["plan"]["share_to"]),
        (&0.3.into(), &0.2.into())
    );
    let again =
        rows(&run(&["refine", text, "--json", "--reward", "regex:old dog", "--rounds", "1"], 0));
    assert_eq!(again[0]["text"], text, "where nothing better is found the given bytes come back");
}

#[test]
fn refined_rows_go_to_a_file_that_can_be_continued_and_carry_their_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (texts, out) = (dir.path().join("texts.jsonl"), dir.path().join("better.jsonl"));
    let line = |id: u32, text: &str| format!("{{\"id\": {id}, \"text\": \"{text}\"}}\n");
    std::fs::write(&texts, line(7, "A cat sat.") + &line(8, "The dog ran.")).unwrap();
    let (texts, file) = (texts.to_str().unwrap(), out.to_str().unwrap());
    let args = ["refine", "--file", texts, "--json", "--rounds", "1", "--quiet", "--out", file];
    let made = rows(&run(&args, 0));
    assert_eq!((&made[0]["id"], &made[1]["id"]), (&7.into(), &8.into()));
    let whole = std::fs::read_to_string(&out).unwrap();
    let first = whole.find('\n').unwrap() + 1;
    std::fs::write(&out, &whole[..first + 9]).unwrap();
    let again = rows(&run(&[&args[..], &["--resume"]].concat(), 0));
    assert_eq!((again.len(), &again[0]["text"]), (1, &made[1]["text"]));
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 2);
}
