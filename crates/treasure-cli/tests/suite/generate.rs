//! `generate`, `compare` and `score` on the tiny golden checkpoints, end to end.

use std::fs;

use serde_json::Value;

use crate::support::{
    golden, parse_rows, rows, run, run_small, small, stderr, stdout, treasure, without_seconds,
};

#[test]
fn a_row_has_the_fields_of_the_contract_and_its_text_is_prompt_and_continuation() {
    let row = rows(&run_small(&["The lake", "--json"], 0)).remove(0);
    let keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "prompt",
        "text",
        "continuation",
        "tokens",
        "reward",
        "rewards",
        "method",
        "seed",
        "sample",
        "cost",
        "plan",
    ] {
        assert!(keys.contains(&key), "{key} in {keys:?}");
    }
    let text = |key: &str| row[key].as_str().unwrap().to_string();
    assert_eq!(text("text"), text("prompt") + &text("continuation"));
    assert_eq!(row["prompt"], "The lake");
    assert_eq!(row["tokens"].as_array().unwrap().len(), 8);
    for key in ["nfe", "nfe_hits", "reward_calls", "reward_cache_hits", "seconds"] {
        assert!(row["cost"][key].is_number(), "{key}");
    }
    let plan = &row["plan"];
    assert_eq!((&plan["beam_width"], &plan["tree_width"]), (&5.into(), &2.into()));
    assert_eq!((&plan["length"], &plan["min_length"]), (&8.into(), &8.into()));
    assert_eq!((&plan["method"], &plan["seed"]), (&"treasure".into(), &0.into()));
    // 1 + (n − 1) m model calls and b + (n − 1) b m reward calls, answered from a cache or not.
    let cost = |key: &str| row["cost"][key].as_u64().unwrap();
    assert_eq!(cost("nfe") + cost("nfe_hits"), 1 + 7 * 2);
    assert_eq!(cost("reward_calls") + cost("reward_cache_hits"), 5 + 7 * 5 * 2);
}

#[test]
fn scoring_the_text_gives_the_reward_of_the_row() {
    for method in ["treasure", "bon", "fk", "base", "fhs", "greedy", "svdd", "code", "naive-tree"] {
        let mut more = vec!["The lake", "--json", "--method", method, "--min-length", "2"];
        if matches!(method, "bon" | "fk" | "base" | "svdd" | "code" | "naive-tree") {
            more.extend(["--steps", "10"]);
        }
        let row = rows(&run_small(&more, 0)).remove(0);
        assert_eq!(row["method"], method);
        let spec = format!("hf:{}#LABEL_2", golden("roberta_cls"));
        let text = row["text"].as_str().unwrap();
        let scored = rows(&run(&["score", "--json", "--reward", &spec, "--", text], 0)).remove(0);
        assert_eq!(scored["reward"], row["reward"], "{method}");
        assert_eq!(scored["rewards"], row["rewards"], "{method}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_any_threads_and_batch_sizes() {
    let prompts = ["The lake", "The horse", "", "--samples", "3", "--json"];
    let plain = rows(&run_small(&prompts, 0));
    assert_eq!(plain.len(), 9);
    for execution in [
        &["--threads", "1"][..],
        &["--threads", "2", "--batch-size", "1"],
        &["--threads", "2", "--batch-size", "3", "--reward-batch", "1"],
        &["--reward-batch", "7"],
    ] {
        let more: Vec<&str> = prompts.iter().chain(execution).copied().collect();
        assert_eq!(
            without_seconds(&rows(&run_small(&more, 0))),
            without_seconds(&plain),
            "{execution:?}"
        );
    }
    let other = rows(&run_small(&["The lake", "--json", "--seed", "1"], 0));
    assert_ne!(other[0]["text"], plain[0]["text"]);
}

#[test]
fn a_sample_does_not_depend_on_what_runs_beside_it() {
    let many = rows(&run_small(&["The lake", "The horse", "--samples", "2", "--json"], 0));
    let alone = rows(&run_small(&["The horse", "--json"], 0)).remove(0);
    assert_eq!(many[2]["text"], alone["text"]);
    assert_eq!(many[2]["cost"]["nfe"], alone["cost"]["nfe"]);
}

#[test]
fn templates_leave_fixed_text_untouched_byte_for_byte() {
    for (template, pattern) in [
        ("The [MASK:3] was [MASK:4].", r"(?s)^The .* was .*\.$"),
        ("[MASK] lake,  and\nthe [MASK:2]!", r"(?s)^.* lake,  and\nthe .*!$"),
        ("re[MASK:2]d [MASK][MASK] end ", r"(?s)^re.*d .* end $"),
    ] {
        let reward = format!("hf:{}#LABEL_2", golden("roberta_cls"));
        let model = golden("mdlm");
        let output = run(
            &["generate", "--json", "--model", &model, "--reward", &reward, "--template", template],
            0,
        );
        let row = rows(&output).remove(0);
        let text = row["text"].as_str().unwrap();
        assert!(regex::Regex::new(pattern).unwrap().is_match(text), "{template:?}: {text:?}");
        let (prompt, rest) =
            (row["prompt"].as_str().unwrap(), row["continuation"].as_str().unwrap());
        assert_eq!(text, format!("{prompt}{rest}"));
        assert_eq!(prompt, template.split("[MASK").next().unwrap());
        assert_eq!(row["plan"]["template"], template);
    }
}

#[test]
fn a_target_that_is_reached_gives_0_and_one_that_is_missed_gives_1() {
    run_small(&["The lake", "--target-reward", "-100"], 0);
    let missed = run_small(&["The lake", "--target-reward", "0"], 1);
    assert!(stdout(&missed).starts_with("The lake"));
    assert!(stderr(&missed).contains("target reward missed by 1 of 1"));
}

#[test]
fn budgets_stop_a_sample_and_the_row_says_so() {
    let row = rows(&run_small(&["The lake", "--json", "--max-nfe", "5"], 0)).remove(0);
    assert!(row["cost"]["nfe"].as_u64().unwrap() <= 5);
    assert_eq!(row["stopped"], "max-nfe");
    let row = rows(&run_small(&["The lake", "--json", "--max-reward-calls", "9"], 0)).remove(0);
    assert!(row["cost"]["reward_calls"].as_u64().unwrap() <= 9);
    assert_eq!(row["stopped"], "max-reward-calls");
}

#[test]
fn parts_judges_and_diversity_stand_beside_the_reward() {
    let classifier = golden("roberta_cls");
    let reward = format!("hf:{classifier}#LABEL_2 + 0.5*length:1..3");
    let judge = format!("hf:{classifier}#LABEL_0");
    let row = rows(&run_small(
        &["The lake", "--json", "--reward", &reward, "--judge", &judge, "--judge", "distinct:1"],
        0,
    ))
    .remove(0);
    let parts = row["rewards"].as_object().unwrap();
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts.contains_key("0.5*length:1..3"), "{parts:?}");
    let total: f64 = parts.values().map(|part| part.as_f64().unwrap()).sum();
    assert!((total - row["reward"].as_f64().unwrap()).abs() < 1e-12);
    let held_out = &row["held_out"];
    assert!(held_out["judges"][&judge].as_f64().unwrap() < 0.0);
    assert!(held_out["judges"]["distinct:1"].is_number());
    assert_eq!(held_out["dist"].as_array().unwrap().len(), 3);
}

#[test]
fn a_reward_or_judge_that_sees_a_part_of_the_text_only_is_noted_once() {
    let judge = format!("hf:{}#LABEL_2", golden("roberta_cls"));
    let ask = |prompt: &str, reward: &str| {
        let asked = ["generate", prompt, "--reward", reward, "--judge", &judge, "--method", "fhs"];
        let more = ["--length", "4", "--samples", "2", "--json"];
        let output = run(&[&asked[..], &more[..]].concat(), 0);
        (rows(&output).remove(1)["notes"].to_string(), stderr(&output))
    };
    let note = format!("{judge}: saw 64 tokens only, the most it reads; the text is longer");
    for reward in [judge.as_str(), "contains:lake", &format!("contains:lake + {judge}")] {
        let (row, said) = ask(&"The lake was quiet. ".repeat(20), reward);
        assert_eq!(row.matches(&note).count(), 1, "{row}");
        assert_eq!(said.matches(&note).count(), 1, "{said}");
    }
    let (row, said) = ask("The lake", &judge);
    assert_eq!(row, "[]");
    assert!(!said.contains("the most it reads"), "{said}");
}

#[test]
fn a_rule_that_is_not_met_is_noted_and_met_ones_are_not() {
    let of = |reward: &str| {
        let more = ["The lake", "--samples", "2", "--json", "--reward", reward];
        let made = run_small(&more, 0);
        (rows(&made), stderr(&made))
    };
    let (made, said) = of("contains:zyx,qqq");
    for row in &made {
        let note = row["notes"].as_array().unwrap().last().unwrap().as_str().unwrap();
        assert!(note.starts_with("the rule of the reward is not met: 0"), "{note}");
        assert!(note.ends_with(" of 1"), "{note}");
    }
    assert_eq!(said.matches("note: this text does not meet the rule (0").count(), 2, "{said}");
    assert!(!said.contains("--beam-width") && !said.contains("the rule of the reward"), "{said}");
    let (made, said) = of("length:1..99");
    assert!(made.iter().all(|row| row["notes"] == Value::Array(Vec::new())), "{made:?}");
    assert!(!said.contains("does not meet"), "{said}");
}

#[test]
fn a_batch_goes_to_a_file_and_a_truncated_one_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let prompts = dir.path().join("prompts.jsonl");
    fs::write(
        &prompts,
        "{\"prompt\": \"The lake\"}\n{\"context_string\": \"The horse\"}\n{\"prompt\": \"The lake\"}\n",
    )
    .unwrap();
    let prompts = prompts.display().to_string();
    let whole = dir.path().join("whole.jsonl");
    let base = ["--prompts", &prompts, "--samples", "2", "--quiet", "--out"];
    let more: Vec<&str> = base.iter().copied().chain([whole.to_str().unwrap()]).collect();
    run_small(&more, 0);
    let text = fs::read_to_string(&whole).unwrap();
    let expected = without_seconds(&parse_rows(&text));
    assert_eq!(text.lines().count(), 6);
    // Cut at several places, as a kill at any moment could.
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for cut in [0, 7, ends[0] - 1, ends[0], ends[2] + 40, ends[4], text.len()] {
        let part = dir.path().join(format!("part-{cut}.jsonl"));
        fs::write(&part, &text[..cut]).unwrap();
        let part = part.display().to_string();
        let args = small(&["--prompts", &prompts, "--samples", "2", "--out", &part, "--resume"]);
        let output = treasure().args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let resumed = fs::read_to_string(&part).unwrap();
        assert_eq!(without_seconds(&parse_rows(&resumed)), expected, "cut at {cut}");
        let truncated = cut > 0 && !ends.contains(&cut);
        assert_eq!(stderr(&output).contains("the last line was cut short"), truncated, "{cut}");
    }
    // Another plan is refused and the file stays.
    let args = small(&[
        "--prompts",
        &prompts,
        "--samples",
        "2",
        "--out",
        whole.to_str().unwrap(),
        "--resume",
        "--tree-width",
        "3",
    ]);
    let refused = run(&args.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    assert!(stderr(&refused).contains("tree_width is 2 there and 3 here"), "{}", stderr(&refused));
    assert_eq!(fs::read_to_string(&whole).unwrap(), text);
}

#[test]
fn the_tree_of_a_trace_becomes_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("search.jsonl").display().to_string();
    run_small(&["The lake", "--trace", &trace, "--samples", "2"], 0);
    let told = stdout(&run(&["trace", "view", &trace], 0));
    assert!(told.contains("search.html: 2 searches"), "{told}");
    let page = fs::read_to_string(dir.path().join("search.html")).unwrap();
    assert!(page.contains("prompt 0, sample 1") && page.contains("The lake"));
    let data = page.split("id=\"trees\">").nth(1).unwrap().split("</script>").next().unwrap();
    let trees: serde_json::Value = serde_json::from_str(data).unwrap();
    let nodes = trees[0]["nodes"].as_array().unwrap();
    assert!(nodes.len() > 4 && nodes.iter().any(|node| node["reason"] == "beaten"));
    assert!(!trees[0]["texts"].as_object().unwrap().is_empty());
    let error = stderr(&run(&["trace", "view", "Cargo.toml"], 2));
    assert!(error.contains("Cargo.toml: expected a trace"), "{error}");
    assert!(error.contains("hint: write one with generate --trace FILE.jsonl"), "{error}");
    // A trace is never replaced.
    let before = fs::read(&trace).unwrap();
    let error = stderr(&run_small(&["The lake", "--trace", &trace], 2));
    assert!(
        error.contains("the file already holds") && error.contains("name another file"),
        "{error}"
    );
    assert!(fs::read(&trace).unwrap() == before);
    // Nor is anything else by a page, but an earlier page.
    let error = stderr(&run(&["trace", "view", &trace, "--out", &trace], 2));
    assert!(error.contains("expected no file or an earlier page"), "{error}");
    assert!(fs::read(&trace).unwrap() == before);
    run(&["trace", "view", &trace], 0);
}

#[test]
fn constraints_hold_of_every_text() {
    let words = rows(&run_small(&["The lake", "--choices", " a, the,a b", "--json"], 0));
    assert!([" a", " the", "a b"].contains(&words[0]["continuation"].as_str().unwrap()));
    let error = stderr(&run_small(&["The lake", "--matches", "a{90}"], 2));
    assert!(error.contains("expected at least"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("letter.txt");
    fs::write(&file, "Dear [MASK|choices:a,e], so long.\n").unwrap();
    let path = file.display().to_string();
    run(
        &["generate", "--model", &golden("mdlm"), "--reward", "length:1..9", "--fill-in", &path],
        0,
    );
    // Beside other methods, and under methods of every kind, the same holds.
    for method in ["fhs", "base", "bon", "fk", "svdd", "smc", "pg", "refine"] {
        let more = ["The lake", "--choices", " a, the,a b", "--json", "--method", method];
        let found = rows(&run_small(&more, 0)).remove(0);
        let text = found["continuation"].as_str().unwrap();
        assert!([" a", " the", "a b"].contains(&text), "{method}: {text:?}");
    }
    let error = stderr(&run_small(&["The lake", "--choices", ""], 2));
    assert!(error.contains("--choices: expected at least one text"), "{error}");
    let beside = stdout(&run_small(&["The lake", "--choices", " a, the", "--beside"], 0));
    assert!(beside.matches("The lake a\n").count() + beside.matches("The lake the\n").count() >= 3);
    let filled = fs::read_to_string(&file).unwrap();
    assert!(["Dear a, so long.\n", "Dear e, so long.\n"].contains(&filled.as_str()), "{filled}");
}

#[test]
fn a_schema_file_a_hole_with_a_rule_and_an_empty_prompt_take_constraints() {
    let dir = tempfile::tempdir().unwrap();
    let (schema, letter) = (dir.path().join("a.json"), dir.path().join("letter.txt"));
    fs::write(
        &schema,
        r#"{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}"#,
    )
    .unwrap();
    let row = rows(&run_small(&["", "--json", "--json-schema", schema.to_str().unwrap()], 0));
    let value: Value = serde_json::from_str(row[0]["continuation"].as_str().unwrap()).unwrap();
    assert!(value["a"].is_i64(), "{value}");
    let row = rows(&run_small(&["", "--json", "--choices", "a,the,On"], 0)).remove(0);
    assert!(["a", "the", "On"].contains(&row["text"].as_str().unwrap()), "{row}");
    let model = golden("mdlm");
    let base = ["generate", "--model", &model, "--reward", "length:1..9"];
    let with = |more: &[&str], status| run(&[&base[..], more].concat(), status);
    let template = "The lake[MASK:12|regex: [a-z]{6,40} [0-9]{2}]!";
    let row = rows(&with(&["--json", "--template", template], 0)).remove(0);
    let text = row["text"].as_str().unwrap();
    let whole = regex::Regex::new("^The lake [a-z]{6,40} [0-9]{2}!$").unwrap();
    assert!(whole.is_match(text), "{text:?}");
    fs::write(&letter, "Dear [MASK|choices:a,e], it is [MASK:3|regex:[a-z]+] so.\n").unwrap();
    with(&["--fill-in", letter.to_str().unwrap()], 0);
    let filled = fs::read_to_string(&letter).unwrap();
    let whole = regex::Regex::new("^Dear [ae], it is [a-z]+ so\\.\n$").unwrap();
    assert!(whole.is_match(&filled), "{filled:?}");
    let choices = ["The lake", "--length", "12", "--choices", " a", "--min-length", "9"];
    let error = stderr(&with(&choices, 2));
    assert!(error.contains("expected at most 2 tokens, the longest text"), "{error}");
}

#[test]
fn a_trace_tells_every_step() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.jsonl").display().to_string();
    run_small(&["The lake", "--trace", &trace, "--samples", "2"], 0);
    let lines = parse_rows(&fs::read_to_string(&trace).unwrap());
    let events = |name: &str| lines.iter().filter(|line| line["event"] == name).count();
    assert_eq!(lines[0]["schema"], "treasure-trace");
    assert_eq!((events("sample"), events("start"), events("end")), (2, 2, 2));
    assert_eq!(events("step"), 16);
    let samples: Vec<&Value> =
        lines.iter().filter(|line| line["event"] == "sample").map(|line| &line["sample"]).collect();
    assert_eq!(samples, [&Value::from(0), &Value::from(1)]);
}

#[test]
fn compare_matches_the_budget_of_the_first_method() {
    let (model, reward) = (golden("mdlm"), format!("hf:{}#LABEL_2", golden("roberta_cls")));
    for (matched, key) in [("nfe", "nfe"), ("reward-calls", "reward_calls")] {
        let found = rows(&run(
            &[
                "compare",
                "The lake",
                "--json",
                "--model",
                &model,
                "--reward",
                &reward,
                "--length",
                "8",
                "--methods",
                "treasure,bon,greedy",
                "--match",
                matched,
                "--sampler",
                "first-hitting",
            ],
            0,
        ));
        let methods: Vec<&str> = found.iter().map(|row| row["method"].as_str().unwrap()).collect();
        assert_eq!(methods, ["treasure", "bon", "greedy"]);
        let budget = found[0]["cost"][key].as_f64().unwrap();
        assert_eq!(found[1]["plan"]["budget"].as_f64().unwrap(), budget);
        let spent = found[1]["cost"][key].as_f64().unwrap();
        assert!((spent / budget - 1.0).abs() < 0.5, "{matched}: {spent} of {budget}");
    }
    let table = stdout(&run(
        &[
            "compare",
            "The lake",
            "--model",
            &model,
            "--reward",
            &reward,
            "--length",
            "6",
            "--methods",
            "treasure,fhs",
            "--quiet",
        ],
        0,
    ));
    assert!(table.starts_with("method"), "{table}");
}

#[test]
fn compare_gives_all_methods_one_budget_that_none_exceeds() {
    let (model, reward) = (golden("mdlm"), format!("hf:{}#LABEL_2", golden("roberta_cls")));
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("it.svg").display().to_string();
    let methods = "treasure,bon,smc,pg,dts,dts-star,iterref,svdd,fhs";
    #[rustfmt::skip]
    let mut args = vec![
        "compare", "The lake", "The sea", "--samples", "2", "--json", "--model", &model, "--reward",
        &reward, "--length", "8", "--methods", methods, "--max-nfe", "60", "--sampler", "first-hitting",
    ];
    if cfg!(feature = "eval") {
        args.extend(["--picture", &picture]);
    }
    let found = rows(&run(&args, 0));
    assert_eq!(found.len(), 9 * 2 * 2);
    for row in &found {
        assert_eq!((&row["plan"]["budget"], &row["plan"]["match"]), (&60.0.into(), &"nfe".into()));
        let (method, spent) = (&row["method"], row["cost"]["nfe"].as_u64().unwrap());
        assert!(spent <= 60, "{method}: {spent}");
        assert!(spent > 20 || method == "fhs", "{method} has much left: {spent}");
    }
    if cfg!(feature = "eval") {
        let picture = std::fs::read_to_string(&picture).unwrap();
        assert!(picture.contains("model calls (NFE)") && picture.contains("dts-star"));
    }
}
