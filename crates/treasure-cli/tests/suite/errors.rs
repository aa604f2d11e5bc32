//! Wrong input: exit 2, nothing on standard output, an error that says what to do.

use std::fs;

use crate::support::{expect, golden, run, run_small, small, stderr, stdout, treasure};

/// Fails with 2 and an empty standard output; the words of standard error.
fn fails(args: &[&str]) -> String {
    let output = run(args, 2);
    assert_eq!(stdout(&output), "", "{args:?}");
    stderr(&output)
}

#[test]
fn wrong_input_is_answered_with_an_error_and_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.jsonl");
    fs::write(&empty, "").unwrap();
    let bad_row = dir.path().join("bad.jsonl");
    fs::write(&bad_row, "{\"prompt\": \"a\"}\n{\"text\": 1}\n").unwrap();
    let (empty, bad_row) = (empty.display().to_string(), bad_row.display().to_string());
    let mdlm = golden("mdlm");
    let classifier = golden("roberta_cls");
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("no prompt", vec!["generate".into()]),
        ("template without holes", vec!["generate".into(), "--template".into(), "no holes".into()]),
        ("bad hole", vec!["generate".into(), "--template".into(), "a [MASK:x] b".into()]),
        ("empty prompt file", vec!["generate".into(), "--prompts".into(), empty]),
        ("bad prompt row", vec!["generate".into(), "--prompts".into(), bad_row]),
        (
            "missing prompt file",
            vec!["generate".into(), "--prompts".into(), "/nonexistent.jsonl".into()],
        ),
        (
            "malformed spec",
            vec![
                "generate".into(),
                "x".into(),
                "--reward".into(),
                "sentiment=positive + 0.5*".into(),
            ],
        ),
        ("bad regex", small(&["x", "--reward", "regex:a(b"])),
        ("unknown label", small(&["x", "--reward", &format!("hf:{classifier}#happy")])),
        ("unused option", small(&["x", "--particles", "4"])),
        ("unused option for fk", small(&["x", "--method", "fk", "--beam-width", "3"])),
        ("min-length above length", small(&["x", "--min-length", "9"])),
        ("bad width", small(&["x", "--tree-width", "0"])),
        ("unknown method", small(&["x", "--method", "magic"])),
        ("watch without a terminal", small(&["x", "--watch"])),
        (
            "bad ids",
            vec!["predict".into(), "--model".into(), mdlm.clone(), "--ids".into(), "1,x".into()],
        ),
        (
            "ids without a mask",
            vec!["predict".into(), "--model".into(), mdlm.clone(), "--ids".into(), "1,2".into()],
        ),
        (
            "id out of range",
            vec![
                "predict".into(),
                "--model".into(),
                mdlm.clone(),
                "--ids".into(),
                "1,M,999".into(),
            ],
        ),
        (
            "sigma for a model without",
            vec![
                "predict".into(),
                "--model".into(),
                mdlm.clone(),
                "--ids".into(),
                "1,M".into(),
                "--sigma".into(),
                "1".into(),
            ],
        ),
        (
            "masks in score",
            vec![
                "score".into(),
                "--reward".into(),
                format!("hf:{classifier}#0"),
                "--ids".into(),
                "1,M".into(),
            ],
        ),
        (
            "ids for a rule",
            vec![
                "score".into(),
                "--reward".into(),
                "length:1..2".into(),
                "--ids".into(),
                "1,2".into(),
            ],
        ),
        (
            "a method twice",
            vec!["compare".into(), "x".into(), "--methods".into(), "bon,bon".into()],
        ),
        ("unreachable server", small(&["x", "--reward", "tei+http://127.0.0.1:9#POSITIVE"])),
        ("too long for the model", small(&["x", "--length", "500"])),
        ("no such option", small(&["x", "--beam-widht", "3"])),
        ("no such command", vec!["genrate".into()]),
        ("options that exclude each other", small(&["x", "--template", "a [MASK]"])),
        ("no text", vec!["score".into(), "--reward".into(), "cola".into()]),
        ("negative length", small(&["x", "--length", "-3"])),
        ("negative seed", small(&["x", "--seed", "-1"])),
        ("half a seed", small(&["x", "--seed", "1.5"])),
        ("no length", small(&["x", "--length", "0"])),
        ("no samples", small(&["x", "--samples", "0"])),
        ("no particles", small(&["x", "--method", "bon", "--particles", "0"])),
        ("negative prior", small(&["x", "--prior", "-1"])),
        ("prior in words", small(&["x", "--prior", "abc"])),
        ("min-p above 1", small(&["x", "--min-p", "2"])),
        ("no time", small(&["x", "--max-seconds", "0"])),
        ("unknown type", small(&["x", "--dtype", "f8"])),
        ("unknown order", small(&["x", "--order", "random"])),
        ("half a width", small(&["x", "--beam-width", "linear:8"])),
        ("unknown value", small(&["x", "--value", "foo"])),
        ("unknown sentiment", small(&["x", "--reward", "sentiment=happy"])),
        ("no sentiment", small(&["x", "--reward", "sentiment"])),
        ("open regex", small(&["x", "--reward", "regex:("])),
        ("missing schema", small(&["x", "--reward", "json-schema:nope.json"])),
        ("no choice", small(&["x", "--choices", ""])),
        ("output nowhere", small(&["x", "--out", "/nonexistent/x.jsonl"])),
        ("trace nowhere", small(&["x", "--trace", "/nonexistent/t.jsonl"])),
        (
            "missing texts",
            ["score", "--reward", "cola", "--file", "nope.txt"].map(str::to_owned).to_vec(),
        ),
        ("length of a finished text", ["refine", "x", "--length", "8"].map(str::to_owned).to_vec()),
        ("nothing kept", ["refine", "a dog", "--keep", "cat"].map(str::to_owned).to_vec()),
        ("open pattern", ["refine", "a dog", "--keep", "("].map(str::to_owned).to_vec()),
        ("all kept", ["refine", "a dog", "--keep", ".*"].map(str::to_owned).to_vec()),
    ];
    let mut all = String::new();
    for (name, args) in &cases {
        let words = fails(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(words.starts_with("error: ") || words.contains("\nerror: "), "{name}: {words}");
        assert!(words.contains("\nhint: ") && !words.contains("Usage:"), "{name}: {words}");
        // Paths differ from machine to machine.
        let words = words
            .replace(&mdlm, "MDLM")
            .replace(&classifier, "ROBERTA")
            .replace(&dir.path().display().to_string(), "DIR");
        all += &format!("== {name}\n{words}\n");
    }
    expect("errors.txt", &all);
}

#[cfg(feature = "eval")]
#[test]
fn wrong_experiments_traces_and_measurements_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("mine.toml").display().to_string();
    let tiny = "name = \"mine\"\nlenght = 3\n";
    fs::write(&config, tiny).unwrap();
    let sized = dir.path().join("sized.toml").display().to_string();
    fs::write(&sized, "name = \"sized\"\n[size.quick]\nmin_lenght = 3\n").unwrap();
    for (args, hint) in [
        (&["eval", "run", "nope.toml"][..], "name a preset, or a config by its path"),
        (&["eval", "run", "mian"], "did you mean main?"),
        (&["eval", "run", "main", "--quick", "--prompts", "20"], "name a JSON Lines file"),
        (&["eval", "run", &config], "docs/experiments.md"),
        // A key of a config is no flag.
        (&["eval", "run", &sized], "did you mean min_length? docs/experiments.md"),
        (&["eval", "report", "Cargo.toml"], "treasure trace view FILE"),
        (&["trace", "view", "nope.jsonl"], "write one with generate --trace FILE.jsonl"),
        (&["bench", "--searches", "nope.txt"], "name a file of JSON Lines"),
    ] {
        let words = fails(args);
        assert!(words.contains("\nhint: ") && words.contains(hint), "{args:?}: {words}");
    }
}

#[test]
fn fields_of_the_request_are_named_as_the_flags_that_they_came_from() {
    let refined = ["refine", "a dog", "--reward", "length:1..2", "--share", "2..0.1"];
    for (args, words) in [
        (small(&["x", "--min-p", "2"]), "error: --min-p: expected a number"),
        (refined.map(str::to_owned).to_vec(), "error: --share: expected a number"),
        (
            small(&["x", "--method", "dts", "--set", "branch-every=0"]),
            "error: --set branch_every: expected at least 1",
        ),
        (small(&["x", "--max-nfe", "0"]), "hint: raise --max-nfe: "),
    ] {
        let said = fails(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn prompts_that_look_like_slips_are_named() {
    let said = |prompts: &[&str]| stderr(&run_small(prompts, 0));
    assert!(!said(&["The old dog", "The lake"]).contains("note: "));
    assert!(said(&["The", "old"]).contains("note: 2 prompts of one word each; put one prompt of"));
    assert!(said(&["The [MASK]"]).contains("is taken as text; fill holes with --template"));
}

#[test]
fn a_number_of_threads_that_is_none_names_the_cores() {
    let words = fails(&["models", "--threads", "0"]);
    assert!(words.contains("--threads: expected 1 to the ") && words.contains(" cores"), "{words}");
    assert!(words.contains("\nhint: "), "{words}");
}

#[test]
fn a_model_that_is_not_there_is_named_with_what_a_model_can_be() {
    let words = fails(&["generate", "x", "--model", "./nowhere", "--reward", "length:1..2"]);
    assert!(words.contains("./nowhere: no such file or directory"), "{words}");
    assert!(words.contains("\nhint: a model is "), "{words}");
}

#[test]
fn an_error_leaves_no_output_file_behind() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl").display().to_string();
    run_small(&["x", "--out", &out, "--reward", "tei+http://127.0.0.1:9#A"], 2);
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn an_existing_output_file_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl");
    fs::write(&out, "precious").unwrap();
    let words = stderr(&run_small(&["x", "--out", &out.display().to_string()], 2));
    assert!(words.contains("hint: go on with --out and --resume"), "{words}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
}

#[test]
fn every_command_takes_the_common_options() {
    for command in ["generate", "predict", "score", "compare", "models", "bench"] {
        let help = stdout(&run(&[command, "--help"], 0));
        for option in ["--json", "--seed", "--threads", "--quiet"] {
            assert!(help.contains(option), "{command} {option}");
        }
    }
    treasure().args(["--quiet", "--json", "models"]).assert().success();
}

#[test]
fn every_command_answers_wrong_arguments_and_huge_numbers_with_json_under_json() {
    let huge = "18446744073709551615";
    let cases: Vec<Vec<&str>> = vec![
        vec!["generate", "a", "--length", huge],
        vec!["generate", "a", "--max-seconds", "1.9e19"],
        vec!["generate", "a", "--in-flight", huge],
        vec!["generate", "a", "--no-such-flag"],
        vec!["predict", "a [MASK]", "--top", huge],
        vec!["score", "--reward", "zzz", "a"],
        vec!["compare", "a", "--methods", "magic"],
        vec!["bench", "--rounds", huge],
        vec!["eval", "run", "main", "--quick", "--shard", "0/18446744073709551615"],
        vec!["eval", "run", "main", "--quick", "--continuations", "1000000000"],
        vec!["eval", "report", "/nonexistent"],
        vec!["trace", "view", "/nonexistent"],
        vec!["models", "inspect", "/nonexistent"],
        vec!["serve", "--max-seconds", "1e30"],
        vec!["no-such-command"],
    ];
    for mut args in cases {
        args.push("--json");
        let output = run(&args, 2);
        let rows = crate::support::rows(&output);
        let [row] = &rows[..] else { panic!("{args:?}: {rows:?}") };
        let error = &row["error"];
        assert!(error["message"].is_string() && error["because"].is_array(), "{args:?}: {row}");
        assert!(error["kind"].is_string(), "{args:?}: {row}");
        assert!(!stderr(&output).is_empty(), "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_text_is_not_lost_when_standard_error_cannot_be_written() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = |args: &[String]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_treasure"));
        command.args(args).stderr(full()).env("HF_HUB_OFFLINE", "1").output().unwrap()
    };
    let found = run(&small(&["The lake"]));
    assert_eq!(found.status.code(), Some(0));
    assert!(stdout(&found).contains("The lake"));
    let wrong = run(&["score".into(), "--reward".into(), "zzz".into(), "a".into()]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn a_search_that_does_not_fit_the_memory_it_may_use_is_refused_before_it_takes_any() {
    let args =
        small(&["x", "--method", "bon", "--particles", "100000", "--length", "20"]).join(" ");
    let command = format!("ulimit -v 300000; exec {} {args}", env!("CARGO_BIN_EXE_treasure"));
    let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let words = stderr(&output);
    assert!(words.contains("memory: expected at most the 307 MB of this machine"), "{words}");
    assert!(words.contains("take --particles"), "{words}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_leaves_the_file_whole() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl").display().to_string();
    let args = small(&["a", "b", "--samples", "4", "--json", "-q", "--out", &out]).join(" ");
    let command = format!("{} {args} | head -n 1 >/dev/null", env!("CARGO_BIN_EXE_treasure"));
    assert!(std::process::Command::new("sh").args(["-c", &command]).status().unwrap().success());
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 8);
}
