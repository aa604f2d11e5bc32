//! Which crate may use which: the picture of docs/architecture.md, held against every Cargo.toml.

use std::{collections::BTreeSet, fs, path::Path};

/// Every crate with the crates of this project that its library may use.
const ROOMS: [(&str, &[&str]); 11] = [
    ("treasure-core", &[]),
    ("treasure-pocket", &[]),
    ("treasure-testkit", &["treasure-core"]),
    ("treasure-text", &["treasure-core"]),
    ("treasure-models", &["treasure-core", "treasure-text"]),
    ("treasure-rewards", &["treasure-core", "treasure-text", "treasure-models"]),
    (
        "treasure",
        &[
            "treasure-core",
            "treasure-text",
            "treasure-models",
            "treasure-rewards",
            "treasure-pocket",
        ],
    ),
    ("treasure-eval", &["treasure"]),
    ("treasure-server", &["treasure"]),
    ("treasure-py", &["treasure"]),
    ("treasure-cli", &["treasure", "treasure-eval", "treasure-server", "treasure-pocket"]),
];

/// The project's crates in the `[dependencies]` of a manifest.
fn used(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[dependencies]"
                || (line.starts_with("[target.") && line.ends_with(".dependencies]"));
        } else if inside && line.starts_with("treasure") {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            found.insert(name.to_owned());
        }
    }
    found
}

#[test]
fn every_crate_uses_only_the_crates_it_may() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for entry in fs::read_dir(&crates).unwrap() {
        let entry = entry.unwrap();
        let Ok(manifest) = fs::read_to_string(entry.path().join("Cargo.toml")) else { continue };
        let name = entry.file_name().into_string().unwrap();
        let Some((_, may)) = ROOMS.iter().find(|(room, _)| *room == name) else {
            panic!("crates/{name} has no place in the picture: say in ROOMS what it may use");
        };
        let may: BTreeSet<String> = may.iter().map(|&name| name.to_owned()).collect();
        let used = used(&manifest);
        let wrong: Vec<_> = used.difference(&may).collect();
        assert!(wrong.is_empty(), "{name} may use {may:?}, and uses {wrong:?} as well");
        seen += 1;
    }
    assert!(seen >= 9, "only {seen} crates were found");
}

#[test]
fn the_picture_in_the_docs_is_this_one() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let docs = fs::read_to_string(docs).unwrap();
    for (room, may) in ROOMS {
        let line =
            format!("{room:<17}→ {}", if may.is_empty() { "–".into() } else { may.join(", ") });
        assert!(docs.contains(&line), "docs/architecture.md lacks the line `{line}`");
    }
}

/// The packages that a library needs without its default features, as cargo resolves them for this machine.
fn lean(package: &str) -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let asked = ["tree", "--no-default-features", "--offline", "--locked", "-e", "normal"];
    let listed = std::process::Command::new(env!("CARGO"))
        .current_dir(crates)
        .args(asked)
        .args(["--prefix", "none", "--format", "{p}", "-p", package])
        .output()
        .unwrap();
    let failed = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{failed}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[test]
fn without_features_no_http_client_is_in_the_tree() {
    for package in ["treasure", "treasure-text", "treasure-models", "treasure-rewards"] {
        let packages = lean(package);
        assert!(packages.contains("treasure-core"), "{package}: {packages:?}");
        for client in ["ureq", "reqwest", "hyper", "rustls", "hf-hub", "jsonschema"] {
            assert!(!packages.contains(client), "{client} is under {package}");
        }
    }
}

#[test]
fn the_readme_the_documentation_and_the_example_show_one_program() {
    let (_, program) = include_str!("../../examples/steer.rs").split_once("\n\n").unwrap();
    assert!(include_str!("../../../../README.md").contains(program));
    let docs: Vec<&str> = include_str!("../../src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! ").or_else(|| line.strip_prefix("//!")))
        .collect();
    assert!(docs.join("\n").contains(program.trim_end()));
}
