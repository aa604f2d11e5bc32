//! Local programs: their lines, their end, and the end of everything they started.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use treasure_rewards::{Error, Interrupt, RewardOptions, TextReward};

use crate::support::{build, build_with, failure, quick, whole};

#[test]
fn a_local_program_is_started_once_and_answers_line_by_line() {
    let reward =
        build("exec:echo started >&2; n=0; while read -r line; do n=$((n+1)); echo $n; done");
    assert_eq!(reward.score(&["a", "b"]).expect("scores"), [1.0, 2.0]);
    assert_eq!(reward.score(&["c"]).expect("scores"), [3.0]);
}

#[test]
fn a_local_program_gets_json_lines() {
    let text = "two\nlines and \"quotes\"";
    let reward = build(
        r#"exec:while read -r line; do case "$line" in '{"text":"two\nlines and \"quotes\""}') echo 1;; *) echo 0;; esac; done"#,
    );
    assert_eq!(reward.score(&[text]).expect("a score"), [1.0]);
}

#[test]
fn the_death_of_a_local_program_is_reported_with_its_last_words() {
    let message = failure("exec:read line; echo oh no >&2; exit 3", &["abc"]);
    assert!(
        message.contains("oh no") && message.contains("exit code 3") && message.contains("\"abc\""),
        "{message}"
    );
    let message = failure("exec:no-such-program-at-all", &["abc"]);
    assert!(message.contains("no-such-program-at-all"), "{message}");
}

#[test]
fn garbage_from_a_local_program_is_an_error() {
    let message = failure("exec:while read line; do echo hello; done", &["abc"]);
    assert!(message.contains("expected a number") && message.contains("hello"), "{message}");
    let message = failure("exec:while read line; do echo nan; done", &["abc"]);
    assert!(message.contains("finite") && message.contains("\"abc\""), "{message}");
}

/// Waits until `holds`, for a machine with other work; far beyond what is promised.
fn soon(holds: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_second_line_for_a_text_is_an_error_of_its_batch() {
    let message = failure("exec:while read l; do echo 1; echo 2; done", &["a", "b", "c", "d"]);
    assert!(
        message.contains("expected one line per text") && message.contains("\"a\""),
        "{message}"
    );
    let message = failure("exec:yes 1", &["a"]);
    assert!(message.contains("expected one line per text"), "{message}");
    // The second text of a batch: the program is watched after each batch, too.
    let message = failure(
        r#"exec:while read l; do echo 1; case "$l" in *c*) echo 2;; esac; done"#,
        &["a", "b", "c"],
    );
    assert!(message.contains("\"c\": \"2\""), "{message}");
}

#[test]
fn a_line_that_comes_too_late_is_an_error_of_the_next_batch() {
    let reward = build("exec:read l; echo 1; sleep 0.4; echo 2; cat");
    assert_eq!(reward.score(&["a"]).expect("one line"), [1.0]);
    std::thread::sleep(Duration::from_millis(1500));
    let message = whole(&reward.score(&["b"]).expect_err("a line too many"));
    assert!(message.contains("the text \"a\": \"2\""), "{message}");
}

#[test]
fn a_missing_line_is_an_error_with_how_many_came() {
    let options = RewardOptions { exec_timeout: Duration::from_millis(300), ..quick() };
    let reward = build_with("exec:while read l && read m; do echo 1; done", options);
    let message = whole(&reward.expect("a reward").score(&["a", "b"]).expect_err("half"));
    assert!(message.contains("printed nothing within 300ms"), "{message}");
    let options = RewardOptions { exec_timeout: Duration::from_millis(300), ..quick() };
    let reward = build_with("exec:read l; echo 1; read l; echo 2; sleep 9", options);
    let message = whole(&reward.expect("a reward").score(&["a", "b", "c"]).expect_err("two"));
    assert!(message.contains("\"c\" (lines before: 2 for 3 texts)"), "{message}");
}

#[test]
fn half_a_line_is_no_number() {
    let message = failure("exec:read l; printf 0.5", &["a"]);
    assert!(message.contains("in the middle of the line \"0.5\""), "{message}");
}

#[test]
fn a_signal_is_named() {
    let message = failure("exec:read l; kill -9 $$", &["a"]);
    assert!(message.contains("killed by signal 9"), "{message}");
    let message = failure("exec:read l; sh -c 'kill -11 $$'; exit $?", &["a"]);
    assert!(message.contains("exit code 139: killed by signal 11"), "{message}");
}

#[test]
fn a_child_that_may_not_have_more_memory_is_an_error_with_its_words() {
    let message = failure(
        "exec:ulimit -v 20000; read l; x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done",
        &["a"],
    );
    assert!(message.contains("ended before it answered"), "{message}");
    assert!(message.contains("exit code") || message.contains("signal"), "{message}");
}

#[test]
fn control_characters_of_a_program_are_shown_and_not_obeyed() {
    let message = failure(r"exec:read l; printf '\033]0;title\007\033[2J' >&2; exit 1", &["a"]);
    assert!(!message.contains('\u{1b}') && !message.contains('\u{7}'), "{message:?}");
    assert!(message.contains(r"\u{1b}[2J"), "{message:?}");
    let message = failure(r"exec:read l; printf '\033[2J\n'", &["a"]);
    assert!(!message.contains('\u{1b}') && message.contains(r"\u{1b}[2J"), "{message:?}");
}

#[test]
fn whoever_keeps_the_pipe_open_is_not_waited_for() {
    let begin = Instant::now();
    let message = failure("exec:sleep 1000 & read l; exit 4", &["a"]);
    assert!(message.contains("exit code 4"), "{message}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn a_program_that_reads_nothing_is_an_error_however_much_it_is_sent() {
    let options = RewardOptions { exec_timeout: Duration::from_millis(200), ..quick() };
    let reward = build_with("exec:sleep 1000", options).expect("a reward");
    let text = "x".repeat(1 << 20);
    let message = whole(&reward.score(&[text.as_str(); 4]).expect_err("silence"));
    assert!(message.contains("printed nothing within 200ms"), "{message}");
}

#[test]
fn an_interrupt_ends_the_wait_and_the_program() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pid");
    let interrupt = Interrupt::new();
    let options = RewardOptions { interrupt: interrupt.clone(), ..quick() };
    let command =
        format!("exec:echo $$ > {0}.new; mv {0}.new {0}; read l; sleep 1000", file.display());
    let reward = build_with(&command, options).expect("a reward");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| reward.score(&["a"]));
        assert!(soon(|| file.exists()));
        let begin = Instant::now();
        interrupt.raise();
        let error = waiting.join().expect("no panic").expect_err("interrupted");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert!(Error::is_interruption(&error), "{error}");
        assert!(Error::is_interruption(&treasure_core::Error::from(error)));
    });
    assert!(!runs(&file), "the program ends with the wait");
    // A deadline is the same, and what was lowered waits again.
    interrupt.lower();
    interrupt.at(Some(Instant::now() + Duration::from_millis(100)));
    assert!(Error::is_interruption(&reward.score(&["a"]).expect_err("too late")));
}

/// The process whose number a file has, if it has not ended. One that nobody has reaped yet has ended.
fn runs(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).expect("a number");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('Z')))
}

/// A program that starts one process in its group and one outside, and writes down their numbers. With `end`
/// it then ends in its own way.
fn family(directory: &Path, end: &str) -> String {
    let directory = directory.display();
    format!(
        "exec:sleep 1000 & echo $! > {directory}/inside; \
         setsid sh -c 'echo $$ > {directory}/outside; exec sleep 1000' </dev/null >/dev/null 2>&1 & \
         while [ ! -s {directory}/outside ]; do sleep 0.01; done; echo $$ > {directory}/own; \
         while read l; do echo 1; {end} done"
    )
}

fn gone(directory: &Path) -> bool {
    ["own", "inside", "outside"].iter().all(|name| !runs(&directory.join(name)))
}

#[cfg(target_os = "linux")]
#[test]
fn descendants_end_with_the_reward() {
    let directory = tempfile::tempdir().expect("a directory");
    let reward = build(&family(directory.path(), ""));
    assert_eq!(reward.score(&["a"]).expect("a score"), [1.0]);
    assert!(["own", "inside", "outside"].iter().all(|name| runs(&directory.path().join(name))));
    drop(reward);
    assert!(soon(|| gone(directory.path())), "after a normal end");
}

#[cfg(target_os = "linux")]
#[test]
fn descendants_end_with_an_error() {
    for end in ["echo x; echo y;", "exit 1;"] {
        let directory = tempfile::tempdir().expect("a directory");
        let reward = build(&family(directory.path(), end));
        let _ = reward.score(&["a", "b"]).expect_err("an error");
        assert!(soon(|| gone(directory.path())), "after {end}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_has_a_process_group_of_its_own() {
    let group = |stat: String| -> f64 {
        let rest = stat.rsplit(')').next().expect("fields").to_string();
        rest.split_whitespace().nth(2).expect("a group").parse().expect("a number")
    };
    let own = group(std::fs::read_to_string("/proc/self/stat").expect("a file"));
    let reward = build("exec:while read l; do cut -d ' ' -f 5 /proc/$$/stat; done");
    assert_ne!(reward.score(&["a"]).expect("a group"), [own]);
}

const ROLE: &str = "TREASURE_TEST_EXEC_DIRECTORY";

/// Not a test by itself: the process that [`descendants_end_however_their_parent_ends`] ends.
#[test]
fn parent_of_a_program() {
    let Ok(directory) = std::env::var(ROLE) else { return };
    let directory = Path::new(&directory);
    let reward: Arc<_> = build(&family(directory, ""));
    reward.score(&["a"]).expect("a score");
    std::fs::write(directory.join("ready"), "").expect("written");
    std::thread::sleep(Duration::from_secs(60));
}

#[cfg(target_os = "linux")]
#[test]
fn descendants_end_however_their_parent_ends() {
    for signal in ["INT", "TERM", "KILL"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut parent = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "exec::parent_of_a_program"])
            .env(ROLE, directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program again");
        assert!(soon(|| directory.path().join("ready").exists()), "{signal}");
        let killed = Command::new("kill").args(["-s", signal, &parent.id().to_string()]).status();
        assert!(killed.expect("kill").success());
        parent.wait().expect("an end");
        assert!(soon(|| gone(directory.path())), "after {signal}");
    }
}
