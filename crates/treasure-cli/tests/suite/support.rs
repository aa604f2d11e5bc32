//! Running the binary on the tiny golden checkpoints.

use std::{fs, path::PathBuf, process::Output};

use assert_cmd::Command;
use serde_json::Value;

/// A golden checkpoint's directory.
pub fn golden(family: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../treasure-models/tests/golden");
    path.join(family).display().to_string()
}

/// The binary, away from any network or cache.
pub fn treasure() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treasure"));
    command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", "/nonexistent").env("NO_COLOR", "1");
    command.env("COLUMNS", "100");
    command
}

/// Runs with arguments and checks the exit status.
pub fn run(args: &[&str], status: i32) -> Output {
    let output = treasure().args(args).output().expect("the binary starts");
    assert_eq!(
        output.status.code(),
        Some(status),
        "{args:?}\nstdout: {}\nstderr: {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("standard output is UTF-8")
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("standard error is UTF-8")
}

/// JSON Lines of standard output.
pub fn rows(output: &Output) -> Vec<Value> {
    parse_rows(&stdout(output))
}

/// JSON Lines of a text.
pub fn parse_rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON row")).collect()
}

/// Rows as text without their timings.
pub fn without_seconds(rows: &[Value]) -> String {
    let strip = |row: &Value| {
        let mut row = row.clone();
        row["cost"].as_object_mut().expect("a cost").remove("seconds");
        row.to_string()
    };
    rows.iter().map(strip).collect::<Vec<_>>().join("\n")
}

/// Compares a text with a stored one; `UPDATE_EXPECTED=1` stores it anew.
pub fn expect(name: &str, got: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, got).expect("the expected text can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == got,
        "{name} differs; look at it and run with UPDATE_EXPECTED=1\n--- expected\n{expected}\n--- got\n{got}"
    );
}

/// The arguments of a small generation on golden checkpoints.
pub fn small(more: &[&str]) -> Vec<String> {
    let reward = format!("hf:{}#LABEL_2", golden("roberta_cls"));
    let base = ["generate", "--model", &golden("mdlm"), "--reward", &reward, "--length", "8"]
        .map(str::to_string);
    base.into_iter().chain(more.iter().map(ToString::to_string)).collect()
}

/// Runs a small generation.
pub fn run_small(more: &[&str], status: i32) -> Output {
    let args = small(more);
    run(&args.iter().map(String::as_str).collect::<Vec<_>>(), status)
}
