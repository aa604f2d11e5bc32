//! A run that is killed, sharded, starved or disturbed gives the same rows as one left in peace.

use std::{fs, path::Path, process::Command, time::Duration};

use treasure_eval::{
    Error,
    commands::RunOptions,
    store::{Finished, Manifest, ModelHash, hash_directory, reusable},
};

use crate::common::{Trouble, merged, options, plan, run, run_in_peace, session, uninterrupted};

#[test]
fn any_sharding_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let whole = uninterrupted(&folder.path().join("whole"));
    for count in [2, 3] {
        let out = folder.path().join(format!("of-{count}"));
        // In reverse, so that nothing leans on the order of the processes.
        for index in (0..count).rev() {
            run_in_peace(plan(), &options(&out, &format!("{index}/{count}"), false)).unwrap();
        }
        assert_eq!(merged(&out), whole, "{count} shards");
    }
}

#[test]
fn a_model_is_what_it_loads_and_not_its_card() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let hash = || hash_directory(folder.path()).unwrap();
    write("config.json", "{}");
    write("model.safetensors", "weights");
    let bare = hash();
    write("README.md", "A card.");
    assert_eq!(hash(), bare);
    write("model.safetensors", "Weights");
    assert_ne!(hash(), bare);
}

#[test]
fn shards_in_folders_of_their_own_merge_too() {
    let folder = tempfile::tempdir().unwrap();
    let whole = uninterrupted(&folder.path().join("whole"));
    let parts = [folder.path().join("one"), folder.path().join("two")];
    for (part, shard) in parts.iter().zip(["1/2", "2/2"]) {
        run_in_peace(plan(), &options(part, shard, false)).unwrap();
    }
    let out = folder.path().join("both");
    let merged = treasure_eval::commands::merge(&parts, Some(&out)).unwrap();
    assert_eq!(fs::read(merged.samples).unwrap(), whole);
    // The merged folder stands on its own, seconds included.
    let run = Finished::read(&out).unwrap();
    assert_eq!((run.rows.len(), run.missing.len()), (plan().cells().len(), 0));
    assert!(run.rows.iter().all(|row| row.timing.is_some()));
}

#[test]
fn a_failing_judge_keeps_the_finished_samples_and_resume_does_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let whole = uninterrupted(&folder.path().join("whole"));
    let out = folder.path().join("failing");
    let troubled = session(Trouble { fail_at: Some(40), ..Trouble::default() });
    let error = run(&troubled, plan(), &options(&out, "0/1", false)).unwrap_err();
    let Error::Sample { kept, source, .. } = &error else { panic!("{error}") };
    assert!(*kept > 0 && source.to_string().contains("fell asleep"), "{error}: {source}");
    assert_eq!(Finished::read(&out).unwrap().rows.len(), *kept);
    let error = run_in_peace(plan(), &options(&out, "0/1", false)).unwrap_err();
    assert!(matches!(error, Error::NotEmpty { samples, .. } if samples == *kept), "{error}");
    let rest = run_in_peace(plan(), &options(&out, "0/1", true)).unwrap();
    assert_eq!(rest.ran + kept, plan().cells().len());
    assert_eq!(merged(&out), whole);
}

#[test]
fn a_run_cut_at_any_byte_of_its_file_resumes_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let whole = uninterrupted(&out);
    let file = out.join("shard-0-of-1.jsonl");
    let bytes = fs::read(&file).unwrap();
    let last_row = bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    // The appender's own test cuts at every byte; here each cut runs the missing cells again.
    let end = bytes.len();
    let cuts = [0, 1, last_row - 1, last_row, last_row + 1, end - 2, end - 1, end];
    let cuts = cuts.into_iter().chain((0..end).step_by(end / 12));
    for cut in cuts {
        fs::write(&file, &bytes[..cut]).unwrap();
        run_in_peace(plan(), &options(&out, "0/1", true)).unwrap();
        assert_eq!(merged(&out), whole, "cut at {cut}");
    }
}

#[test]
fn results_of_another_plan_are_refused_with_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    uninterrupted(folder.path());
    let mut other = plan();
    other.continuations = 3;
    let error = run_in_peace(other, &options(folder.path(), "0/1", true)).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, Error::OtherPlan { .. }) && text.contains("continuations: 2, now 3"),
        "{text}"
    );
}

/// The same plan with one reward less, fewer prompts in another order, and other names.
fn neighbour() -> treasure_eval::plan::Plan {
    let mut other = plan();
    other.name = "neighbour".into();
    other.traces = 0;
    other.continuations = 3;
    other.rewards.remove(0);
    other.prompts.swap(0, 1);
    other.variants.retain(|variant| variant.method != "fk");
    for variant in &mut other.variants {
        variant.name.push_str(", again");
        if variant.is_treasure() {
            variant.value = Some("resubstitute".into());
        }
    }
    other
}

#[test]
fn rows_taken_over_from_another_run_are_those_that_would_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let [source, fresh, taken] = ["source", "fresh", "taken"].map(|name| folder.path().join(name));
    uninterrupted(&source);
    run_in_peace(neighbour(), &options(&fresh, "0/1", false)).unwrap();
    let reuse = RunOptions { reuse: vec![source], ..options(&taken, "0/1", false) };
    let done = run_in_peace(neighbour(), &reuse).unwrap();
    // Six variants, one reward, three prompts: two continuations are there, the third is not.
    assert_eq!((done.reused, done.ran), (6 * 3 * 2, 6 * 3));
    assert_eq!(merged(&taken), merged(&fresh));
    // A second time there is nothing left to take.
    let again = RunOptions { resume: true, ..reuse };
    let done = run_in_peace(neighbour(), &again).unwrap();
    assert_eq!((done.already, done.reused, done.ran), (6 * 3 * 3, 0, 0));
}

#[test]
fn texts_of_a_run_with_other_judges_are_taken_over_and_judged_again() {
    let folder = tempfile::tempdir().unwrap();
    let [source, fresh, taken] = ["source", "fresh", "taken"].map(|name| folder.path().join(name));
    uninterrupted(&source);
    let mut other = plan();
    other.traces = 0;
    (other.rewards[1].heldout, other.rewards[0].heldout_accuracy) = (Some("own:b".into()), None);
    run_in_peace(other.clone(), &options(&fresh, "0/1", false)).unwrap();
    let reuse = RunOptions { reuse: vec![source], ..options(&taken, "0/1", false) };
    let done = run_in_peace(other.clone(), &reuse).unwrap();
    assert_eq!((done.reused, done.ran), (other.cells().len(), 0));
    assert_eq!(merged(&taken), merged(&fresh));
}

#[test]
fn rows_that_would_differ_are_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    uninterrupted(&source);
    let from = Finished::read(&source).unwrap().manifest;
    let takes = |plan: &treasure_eval::plan::Plan, hashes: &[ModelHash]| {
        let manifest = Manifest::new(plan.clone(), hashes.to_vec());
        let cells = plan.cells();
        reusable(&source, &manifest, &cells.iter().collect::<Vec<_>>()).unwrap()
    };
    // Cells that keep a trace are made anew: two trees of one prompt on two rewards.
    let all = plan().cells().len();
    assert_eq!(takes(&plan(), &from.hashes).rows.len(), all - 4);
    type Change = (&'static str, fn(&mut treasure_eval::plan::Plan));
    let changes: [Change; 4] = [
        ("seed", |plan| plan.seed += 1),
        ("precision", |plan| plan.precision = Some("bf16".into())),
        ("min_length", |plan| plan.min_length += 1),
        ("model", |plan| plan.model.push('x')),
    ];
    for (what, change) in changes {
        let mut other = plan();
        change(&mut other);
        let found = takes(&other, &from.hashes);
        assert!(found.rows.is_empty(), "{what}");
        assert!(found.obstacle.as_ref().is_some_and(|o| o.contains(what)), "{found:?}");
    }
    let table = from.hashes.iter().find(|hash| hash.name == "own").unwrap();
    let retrained = [ModelHash { sha256: "12".into(), ..table.clone() }];
    let obstacle = takes(&plan(), &retrained).obstacle;
    assert_eq!(obstacle.as_deref(), Some("own: other contents"));
    // Another aim is another search, of its own cells and of shared candidates; not for the model alone.
    let mut other = plan();
    (other.traces, other.rewards[0].spec) = (0, "own:heldout-a".into());
    let found = takes(&other, &from.hashes);
    let free = |cell: &&treasure_eval::plan::Cell| match cell.reward {
        None => !other.variants[cell.variant].shared,
        Some(reward) => reward == 1,
    };
    assert_eq!(found.rows.len(), other.cells().iter().filter(free).count());
    // A variant that works otherwise, a prompt that says otherwise: only their rows are made anew.
    let mut other = plan();
    other.traces = 0;
    other.variants[0].steps += 1;
    other.prompts[0].push('!');
    let found = takes(&other, &from.hashes);
    let stays = |cell: &&treasure_eval::plan::Cell| cell.variant != 0 && cell.prompt != 0;
    assert_eq!(found.rows.len(), other.cells().iter().filter(stays).count());
}

#[test]
fn merge_refuses_mixed_plans_and_names_missing_and_double_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    run_in_peace(plan(), &options(&a, "0/2", false)).unwrap();
    let merge = |folders: &[&Path]| {
        let folders: Vec<_> = folders.iter().map(|folder| folder.to_path_buf()).collect();
        treasure_eval::commands::merge(&folders, Some(&a)).unwrap_err().to_string()
    };
    let missing = merge(&[&a]);
    assert!(missing.contains("missing: ") && missing.contains("/c0"), "{missing}");
    assert!(!a.join("samples.jsonl").exists(), "nothing is written unless all is well");
    let mut other = plan();
    other.seed += 1;
    run_in_peace(other, &options(&b, "1/2", false)).unwrap();
    assert!(merge(&[&a, &b]).contains("another plan"));
    fs::remove_dir_all(&b).unwrap();
    run_in_peace(plan(), &options(&b, "0/1", false)).unwrap();
    assert!(merge(&[&a, &b]).contains(" double: "));
}

const CHILD: &str = "TREASURE_EVAL_CHILD_FOLDER";

/// Not a test by itself: the process that the next test kills.
#[test]
#[ignore = "the child of another test"]
fn child_process() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let slow = session(Trouble { delay: Duration::from_millis(6), ..Trouble::default() });
    run(&slow, plan(), &options(Path::new(&folder), "0/1", true)).unwrap();
}

#[test]
fn a_run_killed_again_and_again_ends_with_the_bytes_of_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let whole = uninterrupted(&folder.path().join("whole"));
    let out = folder.path().join("killed");
    let file = out.join("shard-0-of-1.jsonl");
    let rows =
        || fs::read(&file).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count());
    let mut kills = 0;
    loop {
        let before = rows();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "run_store::child_process", "--ignored", "--quiet"])
            .env(CHILD, &out)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Kill -9 once a few more samples are there, or let it finish.
        let finished = loop {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                break true;
            }
            if rows() >= before + 7 {
                child.kill().unwrap();
                child.wait().unwrap();
                break false;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let ids = Finished::read(&out).unwrap();
        assert!(ids.rows.len() >= before, "a finished sample was lost");
        if finished {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 2, "the run ended before it could be killed");
    assert_eq!(merged(&out), whole);
}
