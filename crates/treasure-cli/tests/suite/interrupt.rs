//! Ctrl-C and kill, with real signals.
#![cfg(unix)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{parse_rows, run_small, small, without_seconds};

/// Starts a generation that takes a while, in a process group of its own, as a shell does.
fn start(more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_treasure"))
        .args(small(more))
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_HOME", "/nonexistent")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Waits until a file has so many lines, or the child has ended.
fn wait_for_lines(path: &Path, lines: usize, child: &mut Child) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(120) {
        let have = fs::read_to_string(path).map_or(0, |text| text.lines().count());
        if have >= lines || child.try_wait().expect("the child can be asked").is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{} never had {lines} lines", path.display());
}

#[test]
fn a_killed_batch_resumes_without_losing_or_repeating_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl");
    let name = out.display().to_string();
    let more = ["The lake", "The horse", "--samples", "20", "--quiet", "--tree-width", "6"];
    let with_out: Vec<&str> = more.iter().copied().chain(["--out", &name]).collect();
    let mut child = start(&with_out);
    wait_for_lines(&out, 3, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = fs::read_to_string(&out).unwrap();
    assert!(kept.lines().count() >= 3);
    let resume: Vec<&str> = with_out.iter().copied().chain(["--resume"]).collect();
    run_small(&resume, 0);
    let resumed = fs::read_to_string(&out).unwrap();
    let whole_lines = &kept[..kept.rfind('\n').map_or(0, |at| at + 1)];
    assert!(resumed.starts_with(whole_lines), "finished rows stay as they are");
    let other = dir.path().join("other.jsonl").display().to_string();
    let whole: Vec<&str> = more.iter().copied().chain(["--out", &other]).collect();
    run_small(&whole, 0);
    let whole = fs::read_to_string(&other).unwrap();
    assert_eq!(
        without_seconds(&parse_rows(&resumed)),
        without_seconds(&parse_rows(&whole)),
        "as if it had never been killed"
    );
}

#[test]
fn ctrl_c_prints_the_best_so_far_and_exits_with_130() {
    // The trace tells when the second sample is under way.
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl");
    let name = out.display().to_string();
    let mut child = start(&[
        "The lake",
        "--samples",
        "500",
        "--json",
        "--tree-width",
        "30",
        "--length",
        "20",
        "--out",
        &name,
    ]);
    wait_for_lines(&out, 1, &mut child);
    signal(&child, "-INT");
    let status = child.wait().unwrap();
    let mut words = String::new();
    child.stdout.take().unwrap().read_to_string(&mut words).unwrap();
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!(status.code(), Some(130), "{talk}");
    assert!(talk.contains("keeping the best so far"), "{talk}");
    let shown = parse_rows(&words);
    assert!(shown.len() < 500);
    let cut: Vec<_> = shown.iter().filter(|row| row["stopped"] == "interrupted").collect();
    assert!(!cut.is_empty(), "{} rows, none cut short\n{talk}", shown.len());
    assert!(cut.iter().all(|row| row["text"].as_str().unwrap().starts_with("The lake")));
    // What was cut short is shown but not stored, so that --resume makes it anew.
    let stored = parse_rows(&fs::read_to_string(&out).unwrap());
    assert_eq!(stored.len(), shown.len() - cut.len());
}

#[test]
fn a_trace_that_was_killed_with_its_rows_is_the_same_after_resuming() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).display().to_string();
    let (out, trace) = (place("out.jsonl"), place("trace.jsonl"));
    let more = ["The lake", "The horse", "--samples", "12", "--quiet", "--tree-width", "4"];
    let with = |out: &str, trace: &str, rest: &[&str]| -> Vec<String> {
        let files = ["--out", out, "--trace", trace];
        more.iter().chain(&files).chain(rest).map(ToString::to_string).collect()
    };
    let args = with(&out, &trace, &[]);
    let mut child = start(&args.iter().map(String::as_str).collect::<Vec<_>>());
    wait_for_lines(Path::new(&out), 3, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    // A kill between the two writes leaves a trace without its row; half of one is worse.
    let torn = fs::read(&trace).unwrap();
    fs::write(&trace, [&torn[..], &torn[..torn.len() / 3]].concat()).unwrap();
    let resume = with(&out, &trace, &["--resume"]);
    run_small(&resume.iter().map(String::as_str).collect::<Vec<_>>(), 0);
    let (other, whole) = (place("other.jsonl"), place("whole.jsonl"));
    let args = with(&other, &whole, &[]);
    run_small(&args.iter().map(String::as_str).collect::<Vec<_>>(), 0);
    assert!(fs::read(&trace).unwrap() == fs::read(&whole).unwrap(), "the traces differ");
}

#[test]
fn ctrl_c_is_answered_while_a_program_is_waited_for_and_nothing_of_it_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("asked").display().to_string();
    // Quick for the first texts, silent for ever after.
    let reward = format!(
        "exec:'n=0; while read l; do n=$((n+1)); if [ $n -gt 5 ]; then echo > {mark}; sleep 7529; fi; echo 0.5; done'"
    );
    let mut child = start(&["The lake", "--length", "20", "--json", "--reward", &reward]);
    wait_for_lines(Path::new(&mark), 1, &mut child);
    let sent = Instant::now();
    signal(&child, "-INT");
    let status = child.wait().unwrap();
    assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
    let mut words = String::new();
    child.stdout.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(status.code(), Some(130), "{words}");
    let rows = parse_rows(&words);
    assert_eq!((&rows[0]["stopped"], &rows[0]["reward"]), (&"interrupted".into(), &0.5.into()));
    let left = Command::new("pgrep").args(["-f", "sleep 7529"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "nothing of it runs on");
}

#[test]
fn ctrl_c_of_a_terminal_which_reaches_the_whole_group_loses_no_result_of_a_program() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("asked").display().to_string();
    let reward = format!("exec:'while read l; do echo >> {mark}; sleep 0.05; echo 0.5; done'");
    let mut child = start(&["The lake", "--length", "20", "--json", "--reward", &reward]);
    wait_for_lines(Path::new(&mark), 9, &mut child);
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status();
    assert!(sent.expect("kill runs").success());
    let output = child.wait_with_output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{talk}");
    let rows = parse_rows(&String::from_utf8_lossy(&output.stdout));
    assert_eq!((&rows[0]["stopped"], &rows[0]["reward"]), (&"interrupted".into(), &0.5.into()));
}

#[test]
fn the_second_ctrl_c_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing is scored when the first comes, so that the program is still asked for a third of a second. A busy
    // machine may be too late with the second.
    let at_once = (0..9).any(|round| {
        let mark = dir.path().join(round.to_string()).display().to_string();
        let reward = format!("exec:'read l; echo > {mark}; sleep 7537'");
        let mut child = start(&["The lake", "--reward", &reward]);
        wait_for_lines(Path::new(&mark), 1, &mut child);
        signal(&child, "-INT");
        let mut talk = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(talk.any(|line| line.contains("Ctrl-C again ends at once")));
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let rest: Vec<String> = talk.collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
        rest.is_empty()
    });
    assert!(at_once, "the second is treated like the first");
}
