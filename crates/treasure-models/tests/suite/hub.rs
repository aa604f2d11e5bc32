//! The hub cache without a network.

use std::{fs, path::Path};

use treasure_core::Hint as _;
use treasure_models::{LoadOptions, Resolver, Scorer, Source};

use crate::support::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub cache that holds the golden GPT-2 as `tiny/gpt2`, with `main` at one commit.
fn cache() -> tempfile::TempDir {
    let cache = tempfile::tempdir().unwrap();
    let model = cache.path().join("models--tiny--gpt2");
    fs::create_dir_all(model.join("refs")).unwrap();
    fs::write(model.join("refs/main"), format!("{COMMIT}\n")).unwrap();
    let snapshot = model.join("snapshots").join(COMMIT);
    fs::create_dir_all(&snapshot).unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden("gpt2").join(file), snapshot.join(file)).unwrap();
    }
    cache
}

fn offline(cache: &Path) -> Resolver {
    Resolver::new().with_cache(cache).offline()
}

#[test]
fn a_cached_model_loads_by_branch_and_by_commit() {
    let cache = cache();
    let resolver = offline(cache.path());
    let pinned = format!("tiny/gpt2@{COMMIT}");
    for name in ["tiny/gpt2", "tiny/gpt2@main", &pinned] {
        Scorer::load(&resolver, name, &LoadOptions::default()).unwrap();
    }
    let by_option = LoadOptions { revision: Some(COMMIT.to_owned()), ..LoadOptions::default() };
    Scorer::load(&resolver, "tiny/gpt2", &by_option).unwrap();
    assert_eq!(resolver.cached(), ["tiny/gpt2"]);
}

#[test]
fn a_revision_that_is_not_cached_is_never_replaced_by_another() {
    let cache = cache();
    let error = Scorer::load(&offline(cache.path()), "tiny/gpt2@other", &LoadOptions::default());
    let text = error.unwrap_err().to_string();
    assert!(text.contains("config.json of tiny/gpt2@other"), "{text}");
    let options = LoadOptions { revision: Some("a".to_owned()), ..LoadOptions::default() };
    assert!(Scorer::load(&offline(cache.path()), "tiny/gpt2@b", &options).is_err());
}

#[test]
fn offline_the_error_names_the_file_and_the_way_out() {
    let empty = tempfile::tempdir().unwrap();
    let error =
        Scorer::load(&offline(empty.path()), "org/name", &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("config.json of org/name@main"), "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.contains("pass a directory") && hint.contains("HF_HOME"), "{hint}");
}

#[test]
fn without_a_home_there_is_an_error_and_no_panic() {
    let Source::Hub(mut repo) = Resolver::new().resolve("org/name", None).unwrap() else {
        panic!("a hub id")
    };
    repo.cache = None;
    repo.offline = false;
    let error = repo.open("config.json").unwrap_err();
    assert!(error.hint().unwrap().contains("neither HF_HOME nor HOME is set"), "{error}");
}

#[test]
fn names_that_could_leave_the_cache_are_no_hub_ids() {
    let resolver = resolver();
    for name in ["../up", "org/..", "a/b/c", "org/name@../x", "org/name@", "~/x", "./x", ""] {
        assert!(resolver.resolve(name, None).is_err(), "{name}");
    }
    assert!(matches!(resolver.resolve("org/na.me-1", None), Ok(Source::Hub(_))));
}
