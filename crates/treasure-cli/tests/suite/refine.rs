//! `refine` on the tiny golden checkpoints, end to end.

use std::fs;

use serde_json::Value;

use crate::support::{golden, parse_rows, rows, run, stderr, stdout, without_seconds};

const TEXT: &str = "The lake was cold and the horse was old.";

/// Runs a small refinement by a judge.
fn refine(more: &[&str], status: i32) -> std::process::Output {
    let (model, reward) = (golden("mdlm"), format!("hf:{}#LABEL_2", golden("roberta_cls")));
    let base = ["refine", "--model", &model, "--reward", &reward, "--rounds", "2"];
    run(&base.into_iter().chain(more.iter().copied()).collect::<Vec<_>>(), status)
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} in {row}"))
}

#[test]
fn a_row_says_what_the_text_was_and_was_worth_and_is_never_worse() {
    let row = rows(&refine(&[TEXT, "--json"], 0)).remove(0);
    assert_eq!(row["before"], TEXT);
    assert_eq!((&row["method"], &row["plan"]["text"]), (&"refine".into(), &TEXT.into()));
    assert!(number(&row, "reward") > number(&row, "reward_before"), "{row}");
    let spec = format!("hf:{}#LABEL_2", golden("roberta_cls"));
    let score = |text: &str| {
        rows(&run(&["score", "--json", "--reward", &spec, "--", text], 0)).remove(0)["reward"]
            .as_f64()
            .unwrap()
    };
    assert_eq!(score(TEXT), number(&row, "reward_before"));
    assert_eq!(score(row["text"].as_str().unwrap()), number(&row, "reward"));
    let shown = stdout(&refine(&[TEXT], 0));
    assert!(shown.contains(&format!("\n  before {:.3}   {TEXT}\n", score(TEXT))), "{shown}");
}

#[test]
fn where_nothing_better_is_found_the_given_bytes_come_back() {
    let texts = [TEXT, "the LAKE,\nand a  lake ", "lake"];
    let met = ["--reward", "contains:lake", "--rounds", "3"];
    let got = rows(&refine(&[&texts[..], &met, &["--json", "--pick", "worst"]].concat(), 0));
    for (row, text) in got.iter().zip(texts) {
        assert_eq!((&row["text"], &row["before"]), (&text.into(), &text.into()));
        assert_eq!(row["reward"], row["reward_before"]);
    }
    let shown = stdout(&refine(&[&texts[..1], &met].concat(), 0));
    assert!(shown.contains("before 1.000, as given: nothing better was found"), "{shown}");
    // Without a budget to score it, the text comes back all the same.
    let row = rows(&refine(&[TEXT, "--json", "--max-reward-calls", "0"], 0)).remove(0);
    assert_eq!((&row["text"], &row["reward_before"]), (&TEXT.into(), &Value::Null));
    assert_eq!(row["stopped"], "max-reward-calls");
}

#[test]
fn what_is_kept_stays_and_the_rest_may_change() {
    let row = rows(&refine(&[TEXT, "--json", "--keep", "The lake|horse|\\.$"], 0)).remove(0);
    let text = row["text"].as_str().unwrap();
    let kept = regex::Regex::new(r"(?s)^The lake.*horse.*\.$").unwrap();
    assert!(kept.is_match(text) && text != TEXT, "{text}");
    assert_eq!(row["prompt"], "The lake");
    for (wrong, message) in [
        (&["--keep", "(?s).*"][..], "got all of the text"),
        (&["--keep", "("], "--keep: expected a regular expression"),
        (&["--keep", "cat"], "--keep: expected a match in the text, got none"),
        (&["--length", "8"], "--length: a finished text says it by itself"),
        (&["--share", "0.5..x"], "expected FROM..TO"),
        (&["--share", "1.5"], "--share: expected a number in (0, 1], got 1.5"),
        (&["--accept", "metropolis", "--pick", "worst"], "uniform with metropolis"),
        (&["--inner", "refine"], "a method that starts from masks"),
        (&["--set", "length=5"], "length"),
    ] {
        let told = stderr(&refine(&[&[TEXT], wrong].concat(), 2));
        assert!(told.contains(message), "{wrong:?}: {told}");
    }
}

#[test]
fn a_text_that_satisfies_a_constraint_is_refined_within_it_and_another_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let schema = dir.path().join("mood.json").display().to_string();
    let of =
        r#"{"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}"#;
    fs::write(&schema, of).unwrap();
    let pattern = r"The lake was [a-z ]+ old\.";
    let json = r#"{"mood": "cold and old"}"#;
    for (text, flag, value) in [
        (TEXT, "--matches", pattern),
        (json, "--json-schema", schema.as_str()),
        ("The lake", "--choices", "The lake,The horse,A lake was seen"),
    ] {
        let row = rows(&refine(&[text, flag, value, "--json", "--rounds", "3"], 0)).remove(0);
        let got = row["text"].as_str().unwrap();
        assert_eq!((&row["before"], &row["method"]), (&text.into(), &"refine".into()));
        assert!(number(&row, "reward") >= number(&row, "reward_before"), "{row}");
        let holds = match flag {
            "--matches" => regex::Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(got),
            "--choices" => value.split(',').any(|choice| choice == got),
            _ => serde_json::from_str::<Value>(got).is_ok_and(|read| read["mood"].is_string()),
        };
        assert!(holds, "{flag}: {got}");
    }
    // More than the given bytes came out of it.
    let row = rows(&refine(&[TEXT, "--matches", pattern, "--json"], 0)).remove(0);
    assert_ne!(row["text"], TEXT);
    for (wrong, message) in [
        (&["--matches", "The lake is .*"][..], "begin like this one up to \"The lake \""),
        (&["--matches", "The lake .*", "--keep", "lake"], "write what stays into the pattern"),
        (&["--matches", "a", "--choices", "b"], "expected one of matches, json_schema and choices"),
        (&["--matches", "((a{0,99}){0,99}){0,99}"], "nodes of the regex: expected at most"),
    ] {
        let told = stderr(&refine(&[&[TEXT], wrong].concat(), 2));
        assert!(told.contains(message) && told.contains("hint: "), "{wrong:?}: {told}");
    }
}

#[test]
fn files_of_texts_or_rows_are_refined_in_order_and_a_run_can_be_continued() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("texts.txt"), format!("{TEXT}\nThe horse was old.\n")).unwrap();
    let options = ["--samples", "2", "--share", "0.5..0.2", "--json", "--keep", "The \\w+"];
    let all = rows(&refine(&[&["--file", &path("texts.txt")][..], &options].concat(), 0));
    let places: Vec<_> = all.iter().map(|row| (&row["prompt_index"], &row["sample"])).collect();
    assert_eq!(
        places,
        [
            (&0.into(), &0.into()),
            (&0.into(), &1.into()),
            (&1.into(), &0.into()),
            (&1.into(), &1.into())
        ]
    );
    // One at a time, on one thread, gives the same rows.
    let alone =
        rows(&refine(&[&["The horse was old.", "--threads", "1"][..], &options].concat(), 0));
    assert_eq!(all[2]["text"], alone[0]["text"]);
    assert_eq!(all[3]["cost"]["nfe"], alone[1]["cost"]["nfe"]);
    // Half of a file, continued.
    let text = without_seconds(&all);
    let lines: Vec<String> = all.iter().map(Value::to_string).collect();
    fs::write(path("out.jsonl"), format!("{}\n{}\n", lines[0], lines[1])).unwrap();
    let out = path("out.jsonl");
    let more = ["--file", &path("texts.txt"), "--out", &out, "--resume"];
    refine(&[&more[..], &options].concat(), 0);
    let written = fs::read_to_string(&out).unwrap();
    assert_eq!(without_seconds(&parse_rows(&written)), text);
    // What a run wrote can be refined again.
    let again = rows(&refine(&["--file", &out, "--json", "--rounds", "1"], 0));
    assert_eq!(again.len(), 4);
    assert_eq!(again[0]["before"], all[0]["text"]);
}

#[test]
fn a_row_keeps_the_prompt_that_its_text_was_written_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let row =
        r#"{"prompt": "The lake ", "text": "The lake was cold and the horse was old.", "id": 7}"#;
    fs::write(path("rows.jsonl"), format!("{row}\n")).unwrap();
    let (file, out) = (path("rows.jsonl"), path("out.jsonl"));
    let options = ["--file", &file, "--json", "--out", &out, "--samples", "2"];
    for made in rows(&refine(&options, 0)) {
        let text = made["text"].as_str().unwrap();
        assert!(text.starts_with("The lake ") && text != TEXT, "{made}");
        assert_eq!((&made["prompt"], &made["id"]), (&"The lake ".into(), &7.into()));
        assert_eq!((&made["plan"]["prompt"], &made["before"]), (&"The lake ".into(), &TEXT.into()));
    }
    // A run that goes on knows its rows by it.
    let said = stderr(&refine(&[&options[..], &["--resume"]].concat(), 0));
    assert!(said.contains("2 rows kept"), "{said}");
    // Only under a constraint, which is on the whole text, the prompt may change.
    let under = refine(&["--file", &file, "--matches", r"The lake was [a-z ]+ old\.", "--json"], 0);
    assert_eq!(rows(&under)[0]["prompt"], "");
    // What a finished text takes shows once its tokens are counted, so that no plan says it.
    assert!(said.contains("plan: ") && !said.contains("model and"), "{said}");
}

#[test]
fn a_chain_hands_back_a_draw_and_an_inner_method_has_its_own_options() {
    let chain = ["--accept", "metropolis", "--lambda", "2", "--answer", "draw", "--json"];
    let row = rows(&refine(&[&[TEXT], &chain[..]].concat(), 0)).remove(0);
    assert_eq!(
        (&row["plan"]["accept"], &row["plan"]["answer"]),
        (&"metropolis".into(), &"draw".into())
    );
    let inner = "inner={\"method\":\"bon\",\"particles\":2,\"sampler\":\"first-hitting\"}";
    let row = rows(&refine(&[TEXT, "--set", inner, "--json"], 0)).remove(0);
    assert_eq!(row["plan"]["inner"]["particles"], 2);
}
