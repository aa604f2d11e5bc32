//! `treasure eval` from the command line: a small experiment on golden checkpoints, and what goes wrong.
//! No golden scorer has a tokenizer, so perplexity is the pocket scorer's.
#![cfg(feature = "pocket")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{golden, rows, run, stderr, stdout};

/// A config of a few dozen samples whose reward is `spec`.
pub fn config(folder: &Path, spec: &str) -> String {
    let path = folder.join("small.toml");
    let text = format!(
        r#"name = "small"
title = "A small run"
kind = "search"
seed = 0

[size.pocket]
model = '{model}'
length = 4
steps = 8
continuations = 2
prompts = 2
strip_prompts = true
ppl = "perplexity"
rewards = ["judge"]
traces = 1

[[reward]]
name = "judge"
spec = '{spec}'

[[method]]
name = "base"
method = "base"

[[method]]
name = "best of N"
method = "bon"
particles = [1, 2, 3, 4]

[[method]]
name = "TReASURe"
method = "treasure"
widths = [[2, 1], [2, 2]]
trace = true
"#,
        model = golden("mdlm"),
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

const ROWS: usize = 2 * 2 * 7;

pub fn judge() -> String {
    format!("hf:{}#LABEL_2", golden("roberta_cls"))
}

pub fn merged(folder: &Path) -> String {
    run(&["eval", "merge", &folder.display().to_string()], 0);
    fs::read_to_string(folder.join("samples.jsonl")).unwrap()
}

pub fn whole(folder: &Path, config: &str) -> String {
    let out = folder.join("whole");
    run(&["eval", "run", config, "--out", &out.display().to_string()], 0);
    merged(&out)
}

#[test]
fn two_shards_at_one_thread_give_the_bytes_of_one_run_and_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &judge());
    let whole = whole(folder.path(), &config);
    assert_eq!(whole.lines().count(), ROWS);
    let out = folder.path().join("shards");
    let shown = out.display().to_string();
    let mut made = 0;
    for shard in ["1/2", "0/2"] {
        let args =
            ["eval", "run", &config, "--out", &shown, "--shard", shard, "--threads", "1", "--json"];
        let done = rows(&run(&args, 0)).remove(0);
        assert_eq!(done["shard"], shard);
        made += done["ran"].as_u64().unwrap();
    }
    assert_eq!(made, ROWS as u64);
    assert_eq!(merged(&out), whole);
    let made = rows(&run(&["eval", "report", &shown, "--json"], 0)).remove(0);
    assert_eq!(made["missing"].as_array().unwrap().len(), 0);
    let page = fs::read_to_string(made["html"].as_str().unwrap()).unwrap();
    assert!(page.contains("A small run") && page.contains("id=\"tree-levels\""));
    let csv = fs::read_to_string(out.join("small.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 7, "{csv}");
}

#[test]
fn a_run_continues_from_the_rows_of_its_report_and_repeats_none() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &judge());
    let whole = whole(folder.path(), &config);
    let part = folder.path().join("part");
    run(&["eval", "run", &config, "--out", &part.display().to_string(), "--shard", "0/2"], 0);
    let report = folder.path().join("report");
    let args =
        ["eval", "report", &part.display().to_string(), "--out", &report.display().to_string()];
    let said = stderr(&run(&args, 0));
    assert!(said.contains("samples are still missing"), "{said}");
    let again = folder.path().join("again");
    fs::create_dir(&again).unwrap();
    fs::copy(report.join("small-manifest.json"), again.join("manifest.json")).unwrap();
    fs::copy(report.join("small.jsonl"), again.join("shard-0-of-1.jsonl")).unwrap();
    let kept = fs::read_to_string(report.join("small.jsonl")).unwrap().lines().count();
    let args =
        ["eval", "run", &config, "--out", &again.display().to_string(), "--resume", "--json"];
    let done = rows(&run(&args, 0)).remove(0);
    assert_eq!(
        (done["already"].as_u64(), done["ran"].as_u64()),
        (Some(kept as u64), Some((ROWS - kept) as u64))
    );
    assert!(kept > 0 && kept < ROWS);
    assert_eq!(merged(&again), whole);
}

#[test]
fn more_continuations_take_over_the_samples_of_fewer() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &judge());
    whole(folder.path(), &config);
    let few = folder.path().join("whole").display().to_string();
    let more = |name: &str, reuse: &[&str]| {
        let out = folder.path().join(name);
        let shown = out.display().to_string();
        let mut args = vec!["eval", "run", &config, "--out", &shown, "--continuations", "3"];
        args.extend(reuse);
        let output = run(&args, 0);
        (stderr(&output) + &stdout(&output), merged(&out))
    };
    let (_, fresh) = more("fresh", &[]);
    let (said, taken) = more("taken", &["--reuse", &few]);
    assert_eq!(taken, fresh);
    // Of the samples that are there, the two with a trace are made anew.
    assert!(said.contains(&format!("took over {} of {}", ROWS - 2, ROWS / 2 * 3)), "{said}");
    let (said, _) = more("other", &["--reuse", &few, "--seed", "1"]);
    assert!(said.contains("nothing to take over (seed: 0 there, 1 here)"), "{said}");
    let nowhere = folder.path().join("nowhere").display().to_string();
    let out = folder.path().join("none").display().to_string();
    let words = stderr(&run(&["eval", "run", &config, "--out", &out, "--reuse", &nowhere], 2));
    assert!(words.contains("manifest.json: reading failed"), "{words}");
}

#[test]
fn an_unknown_preset_is_answered_with_the_presets_there_are() {
    let output = run(&["eval", "run", "mian"], 2);
    assert_eq!(
        stderr(&output),
        "error: preset mian: expected one of main, values, beam-width, groups, diversity, branching, \
         variation, trajectories, controls, fk, readable or a path to a .toml file\n\n\
         hint: did you mean main?\n"
    );
    let words = stderr(&run(&["eval", "run", "something"], 2));
    assert!(words.contains("hint: a config of your own is given by its path"), "{words}");
    assert_eq!(stdout(&output), "");
}

#[test]
fn a_folder_without_a_run_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().display().to_string();
    for command in ["merge", "report"] {
        let words = stderr(&run(&["eval", command, &shown], 2));
        assert!(words.contains("manifest.json: reading failed"), "{words}");
        assert!(words.contains("hint: make the run first"), "{words}");
    }
}

#[test]
fn results_of_another_plan_stay_and_are_not_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &judge());
    let before = whole(folder.path(), &config);
    let out = folder.path().join("whole");
    let shown = out.display().to_string();
    let args = ["eval", "run", &config, "--out", &shown, "--seed", "1", "--resume"];
    let words = stderr(&run(&args, 2));
    assert!(words.contains("holds results of another plan"), "{words}");
    assert!(words.contains("plan.seed: 0, now 1"), "{words}");
    assert!(words.contains("hint: choose another folder"), "{words}");
    assert_eq!(merged(&out), before);
    // Weights held in another type give other texts.
    let args = ["eval", "run", &config, "--out", &shown, "--dtype", "int8", "--resume"];
    let words = stderr(&run(&args, 2));
    assert!(words.contains("hashes.0.sha256: ") && words.contains(" as int8"), "{words}");
    // The same plan again, without --resume, is not taken for a wish to continue.
    let words = stderr(&run(&["eval", "run", &config, "--out", &shown], 2));
    assert!(words.contains("already holds 28 finished samples of this plan"), "{words}");
}

#[test]
fn a_truncated_last_line_is_said_and_its_sample_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &judge());
    let before = whole(folder.path(), &config);
    let out = folder.path().join("whole");
    let file = out.join("shard-0-of-1.jsonl");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 20]).unwrap();
    let args = ["eval", "run", &config, "--out", &out.display().to_string(), "--resume", "--json"];
    let output = run(&args, 0);
    let words = stderr(&output);
    assert!(words.contains("dropped an unfinished last line of"), "{words}");
    assert_eq!(rows(&output)[0]["ran"], 1);
    assert_eq!(merged(&out), before);
}

#[test]
fn a_judge_that_fails_midway_is_named_and_resume_does_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    // Longer texts are better; while `broken` is there, it dies at its tenth text.
    let script = folder.path().join("judge.sh");
    let text = format!(
        "n=0\nwhile read -r line; do\n  n=$((n + 1))\n  if [ $n = 10 ] && [ -e '{}' ]; then echo out of coffee >&2; exit 3; fi\n  echo ${{#line}}\ndone\n",
        broken.display()
    );
    fs::write(&script, text).unwrap();
    let config = config(folder.path(), &format!("exec:sh {}", script.display()));
    let before = whole(folder.path(), &config);
    fs::write(&broken, "").unwrap();
    let out = folder.path().join("failing");
    let shown = out.display().to_string();
    let words = stderr(&run(&["eval", "run", &config, "--out", &shown], 2));
    assert!(
        words.contains("error: sample ") && words.contains("finished samples were kept"),
        "{words}"
    );
    assert!(words.contains("out of coffee"), "{words}");
    assert!(words.contains("run the same command with --resume"), "{words}");
    let kept = fs::read_to_string(out.join("shard-0-of-1.jsonl")).unwrap().lines().count();
    assert!(kept > 0 && kept < ROWS, "{kept}");
    fs::remove_file(&broken).unwrap();
    let done = rows(&run(&["eval", "run", &config, "--out", &shown, "--resume", "--json"], 0));
    assert_eq!(done[0]["ran"], (ROWS - kept) as u64);
    assert_eq!(merged(&out), before);
}

/// Waits until a run has so many finished samples, then sends it what Ctrl-C sends.
#[cfg(unix)]
#[test]
fn ctrl_c_keeps_the_finished_samples_and_resume_gives_the_bytes_of_a_whole_run() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &judge());
    // Long enough that there is something left to stop.
    let text = fs::read_to_string(&config).unwrap().replace("length = 4", "length = 24");
    let text = text.replace("[[2, 1], [2, 2]]", "[[9, 30], [9, 31]]");
    fs::write(&config, text).unwrap();
    let out = folder.path().join("stopped");
    let shown = out.display().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_treasure"))
        .args(["eval", "run", &config, "--out", &shown, "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let file = out.join("shard-0-of-1.jsonl");
    let finished = || fs::read_to_string(&file).map_or(0, |text| text.lines().count());
    while finished() < 6 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("keeping the finished samples"), "{}", stderr(&output));
    let done = rows(&output).remove(0);
    assert_eq!((&done["interrupted"], &done["ran"]), (&true.into(), &finished().into()));
    assert!((6..ROWS).contains(&finished()));
    run(&["eval", "run", &config, "--out", &shown, "--resume"], 0);
    assert_eq!(merged(&out), whole(folder.path(), &config));
}

/// A limit on file sizes fails a write halfway, as a full disk does, and needs no privileges.
#[cfg(unix)]
#[test]
fn a_write_that_does_not_fit_keeps_the_finished_samples_whole() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &judge());
    // No trees: their files would meet the limit first.
    let text = fs::read_to_string(&config).unwrap().replace("trace = true", "trace = false");
    fs::write(&config, text).unwrap();
    let before = whole(folder.path(), &config);
    let out = folder.path().join("full");
    let shown = out.display().to_string();
    let blocks = fs::metadata(folder.path().join("whole/shard-0-of-1.jsonl")).unwrap().len() / 1024;
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"", "sh"])
        .arg(blocks.to_string())
        .arg(env!("CARGO_BIN_EXE_treasure"))
        .args(["eval", "run", &config, "--out", &shown])
        .output()
        .unwrap();
    let words = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("shard-0-of-1.jsonl: writing failed after"), "{words}");
    assert!(words.contains("then run the same command with --resume"), "{words}");
    let file = fs::read_to_string(out.join("shard-0-of-1.jsonl")).unwrap();
    assert!(file.ends_with("}\n"), "cut back to its last whole line");
    assert!((1..ROWS).contains(&file.lines().count()));
    run(&["eval", "run", &config, "--out", &shown, "--resume"], 0);
    assert_eq!(merged(&out), before);
}

#[test]
fn a_preset_of_the_papers_size_says_what_is_missing_offline() {
    let folder = tempfile::tempdir().unwrap();
    let out: PathBuf = folder.path().join("run");
    let args = ["eval", "run", "fk", "--size", "paper", "--out", &out.display().to_string()];
    let words = stderr(&run(&args, 2));
    assert!(words.contains("kuleshov-group/mdlm-owt"), "{words}");
    assert!(!out.exists(), "nothing is left behind");
}
