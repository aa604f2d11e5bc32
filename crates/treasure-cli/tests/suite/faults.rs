//! Faults below the program: a clock that jumps, calls that are short or interrupted, a disk that fills up, and a kill at
//! every single change of a file. `faults.c` makes them, between the program and the C library.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
    time::{Duration, Instant},
};

use crate::support::{parse_rows, rows, small, stderr, without_seconds};

/// The library; the linker of Rust programs builds it.
static FAULTS: LazyLock<PathBuf> = LazyLock::new(|| {
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("faults.so");
    let draft = library.with_extension(std::process::id().to_string());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/faults.c");
    let mut compiler = Command::new("cc");
    let built = compiler.args(["-shared", "-fPIC", "-o"]).arg(&draft).arg(source).arg("-ldl");
    assert!(built.status().expect("cc").success());
    fs::rename(&draft, &library).unwrap();
    library
});

/// The binary under a fault.
fn under(fault: &str, value: usize, folder: &Path, args: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_treasure"))
        .args(args)
        .env("LD_PRELOAD", &*FAULTS)
        .env(fault, value.to_string())
        .env("FAULT_FOLDER", folder)
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_HOME", "/nonexistent")
        .output()
        .expect("the binary starts")
}

fn peacefully(args: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treasure"));
    let output = command.args(args).env("HF_HUB_OFFLINE", "1").output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    output
}

/// A few rows with their traces in a folder; `more` comes last.
fn generation(folder: &Path, more: &[&str]) -> Vec<String> {
    let [out, trace] = ["out.jsonl", "trace.jsonl"].map(|name| folder.join(name));
    let files = [out.display().to_string(), trace.display().to_string()];
    let mut args = vec!["The lake", "ä", "--samples", "2", "-q", "--in-flight", "1"];
    args.extend(["--out", &files[0], "--trace", &files[1]]);
    small(&[&args, more].concat())
}

/// The rows without their seconds, and the traces.
fn files(folder: &Path) -> (String, String) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    (without_seconds(&parse_rows(&read("out.jsonl"))), read("trace.jsonl"))
}

fn new_folder(name: &str, under: &Path) -> PathBuf {
    let folder = under.join(name);
    fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn killed_at_every_change_of_a_file_a_generation_resumes_to_the_bytes_of_a_whole_one() {
    let place = tempfile::tempdir().unwrap();
    let whole = new_folder("whole", place.path());
    peacefully(&generation(&whole, &[]));
    let mut points = 0;
    loop {
        let folder = new_folder(&points.to_string(), place.path());
        let output = under("FAULT_DIE", points + 1, &folder, &generation(&folder, &[]));
        if output.status.success() {
            break;
        }
        assert_eq!(output.status.code(), None, "point {points}: {}", stderr(&output));
        peacefully(&generation(&folder, &["--resume"]));
        assert_eq!(files(&folder), files(&whole), "killed at point {points}");
        points += 1;
    }
    // Four rows and four traces: before, amid and after each write.
    assert!(points >= 24, "{points} points");
}

#[cfg(feature = "pocket")]
#[test]
fn killed_at_every_change_of_a_file_an_experiment_resumes_to_the_bytes_of_a_whole_one() {
    use crate::eval::{config, judge, merged, whole};
    let place = tempfile::tempdir().unwrap();
    let config = config(place.path(), &judge());
    let text = fs::read_to_string(&config).unwrap().replace("prompts = 2", "prompts = 1");
    let text = text.replace("[1, 2, 3, 4]", "[2]").replace("[[2, 1], [2, 2]]", "[[2, 2]]");
    fs::write(&config, text).unwrap();
    let before = whole(place.path(), &config);
    let mut points = 0;
    loop {
        let folder = place.path().join(points.to_string());
        let out = folder.display().to_string();
        let args = ["eval", "run", &config, "--out", &out, "-q"].map(String::from);
        let output = under("FAULT_DIE", points + 1, place.path(), &args);
        if output.status.success() {
            break;
        }
        assert_eq!(output.status.code(), None, "point {points}: {}", stderr(&output));
        peacefully(&[&args[..], &["--resume".into()]].concat());
        assert_eq!(merged(&folder), before, "killed at point {points}");
        let traces = |folder: &Path| -> Vec<(String, Vec<u8>)> {
            let mut found: Vec<_> =
                fs::read_dir(folder.join("traces")).unwrap().flatten().collect();
            found.sort_by_key(fs::DirEntry::file_name);
            // A draft that a kill left behind is nobody's trace.
            let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
            found.retain(|entry| name(entry).ends_with(".jsonl"));
            found.iter().map(|entry| (name(entry), fs::read(entry.path()).unwrap())).collect()
        };
        assert_eq!(traces(&folder), traces(&place.path().join("whole")), "point {points}");
        points += 1;
    }
    assert!(points >= 24, "{points} points");
}

#[test]
fn a_disk_that_fills_up_at_any_place_is_named_and_with_room_again_the_run_is_completed() {
    let place = tempfile::tempdir().unwrap();
    let whole = new_folder("whole", place.path());
    peacefully(&generation(&whole, &[]));
    let length = |name| fs::metadata(whole.join(name)).unwrap().len() as usize;
    let all = length("out.jsonl") + length("trace.jsonl");
    // Times have more or fewer digits from run to run: a thirteenth room, a few bytes short, might do.
    for room in (0..all).step_by(all / 12).take(12) {
        let folder = new_folder(&room.to_string(), place.path());
        let output = under("FAULT_ROOM", room, &folder, &generation(&folder, &[]));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "room for {room} bytes: {said}");
        assert!(said.contains("No space left") && said.contains(".jsonl"), "{room}: {said}");
        let torn = |name: &str| {
            let bytes = fs::read(folder.join(name)).unwrap_or_default();
            bytes.last().is_some_and(|last| *last != b'\n')
        };
        assert!(!torn("out.jsonl") && !torn("trace.jsonl"), "room for {room} bytes");
        peacefully(&generation(&folder, &["--resume"]));
        assert_eq!(files(&folder), files(&whole), "room for {room} bytes");
    }
}

/// A server of rewards that answers `calls` times.
fn rewards(calls: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(calls).flatten() {
            let mut reader = BufReader::new(stream);
            let (mut line, mut length) = (String::new(), 0);
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let body = r#"{"rewards": [0.25, 0.5]}"#;
            let head = format!("content-length: {}\r\nconnection: close", body.len());
            write!(reader.get_mut(), "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").unwrap();
        }
    });
    format!("reward+http://{address}/get_reward")
}

#[test]
fn short_and_interrupted_calls_change_no_byte_of_rows_programs_and_servers() {
    let place = tempfile::tempdir().unwrap();
    let [poor, good] = ["poor", "good"].map(|name| new_folder(name, place.path()));
    let program = ["--reward", "exec:'while read l; do echo ${#l}; done'"];
    let output = under("FAULT_CALLS", 1, &poor, &generation(&poor, &program));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    peacefully(&generation(&good, &program));
    assert_eq!(files(&poor), files(&good));

    let args = ["score", "--reward", &rewards(1), "--json", "a", "b"].map(String::from);
    let scored = under("FAULT_CALLS", 1, &poor, &args);
    assert_eq!(scored.status.code(), Some(0), "{}", stderr(&scored));
    let found: Vec<_> = rows(&scored).iter().map(|row| row["reward"].clone()).collect();
    assert_eq!(found, [0.25, 0.5]);
}

#[test]
fn a_wall_clock_that_jumps_moves_no_deadline_and_no_measured_time() {
    let place = tempfile::tempdir().unwrap();
    let [jumpy, good] = ["jumpy", "good"].map(|name| new_folder(name, place.path()));
    let more = ["--max-seconds", "3600", "--reward", "exec:'while read l; do echo ${#l}; done'"];
    let began = Instant::now();
    let output = under("FAULT_CLOCK", 1, &jumpy, &generation(&jumpy, &more));
    let took = began.elapsed().as_secs_f64();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    peacefully(&generation(&good, &more));
    assert_eq!(files(&jumpy), files(&good), "no search is stopped early");
    for row in parse_rows(&fs::read_to_string(jumpy.join("out.jsonl")).unwrap()) {
        let seconds = row["cost"]["seconds"].as_f64().unwrap();
        assert!((0.0..=took).contains(&seconds), "{seconds} of {took}");
    }

    // A deadline still comes: while searching, and while a program is waited for.
    let silent = ["--reward", "exec:'read l; echo 1; sleep 7541'"];
    for reward in [&["--particles", "100000", "--method", "bon"][..], &silent] {
        let more = [&["x", "--max-seconds", "0.5", "--json", "--length", "20"], reward].concat();
        let began = Instant::now();
        let output = under("FAULT_CLOCK", 1, &jumpy, &small(&more));
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(rows(&output)[0]["stopped"], "max-seconds", "{:?}", rows(&output));
    }
}
