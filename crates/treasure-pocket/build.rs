//! Lists the files of `assets/pocket` for embedding, after checking each against the manifest.
//!
//! A damaged clone (a missing or truncated file) fails here, with the file's name and the way back,
//! instead of at the first use of the model.

use std::{env, fmt::Write as _, fs, path::Path, process::exit};

#[cfg(feature = "packed")]
#[path = "src/words.rs"]
#[allow(dead_code, reason = "unpacking is the library's")]
mod words;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/words.rs");
    let out = format!("{}/models.rs", env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let source = match env::var_os("CARGO_FEATURE_POCKET_PERMISSIVE") {
        None => "static ALL: [Model; 0] = [];\n".to_string(),
        Some(_) => match listing() {
            Ok(source) => source,
            Err(message) => {
                println!("cargo::error={message}");
                println!(
                    "cargo::error=hint: restore the pocket models with `git checkout -- assets/pocket`, or build without them: `--no-default-features`"
                );
                exit(1);
            }
        },
    };
    if let Err(error) = fs::write(&out, source) {
        println!("cargo::error={out}: {error}");
        exit(1);
    }
}

/// Rust: an array of model names with their files, in manifest order.
fn listing() -> Result<String, String> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(|error| error.to_string())?)
        .join("../../assets/pocket");
    let manifest = root.join("manifest.tsv");
    println!("cargo::rerun-if-changed={}", manifest.display());
    let table = fs::read_to_string(&manifest)
        .map_err(|error| format!("assets/pocket/manifest.tsv: {error}"))?;
    let mut models: Vec<(&str, Vec<(&str, String)>)> = Vec::new();
    for (number, line) in table.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let bad = || {
            format!(
                "assets/pocket/manifest.tsv:{}: expected BYTES<tab>MODEL/FILE, got {line:?}",
                number + 1
            )
        };
        let (bytes, path) = line.split_once('\t').ok_or_else(bad)?;
        let (model, file) = path.split_once('/').ok_or_else(bad)?;
        let expected: u64 = bytes.parse().map_err(|_| bad())?;
        let full = root.join(path);
        println!("cargo::rerun-if-changed={}", full.display());
        let got =
            fs::metadata(&full).map_err(|error| format!("assets/pocket/{path}: {error}"))?.len();
        if got != expected {
            return Err(format!("assets/pocket/{path}: expected {expected} bytes, got {got}"));
        }
        let full = full.canonicalize().map_err(|error| format!("assets/pocket/{path}: {error}"))?;
        if models.last().is_none_or(|(name, _)| *name != model) {
            models.push((model, Vec::new()));
        }
        #[cfg(feature = "packed")]
        let full = match file.ends_with(".safetensors") {
            true => packed(&root, model, file)?,
            false => full,
        };
        if let Some((_, files)) = models.last_mut() {
            files.push((file, format!("{full:?}")));
        }
    }
    if env::var_os("CARGO_FEATURE_POCKET").is_none() {
        models.retain(|(model, _)| is_permissive(&root, model));
    }
    let mut source = format!("static ALL: [Model; {}] = [\n", models.len());
    for (model, files) in &models {
        let _ = writeln!(source, "    Model::new({model:?}, &[");
        for (file, full) in files {
            let _ = writeln!(source, "        ({file:?}, include_bytes!({full})),");
        }
        source.push_str("    ]),\n");
    }
    source.push_str("];\n");
    Ok(source)
}

/// Whether a model's card names a licence that lets everybody use it for anything.
fn is_permissive(root: &Path, model: &str) -> bool {
    let card = fs::read_to_string(root.join(model).join("README.md")).unwrap_or_default();
    let named = card.lines().find_map(|line| line.strip_prefix("license: "));
    named.is_some_and(|license| matches!(license.trim(), "mit" | "apache-2.0"))
}

/// Writes weights in an order that compresses.
#[cfg(feature = "packed")]
fn packed(root: &Path, model: &str, file: &str) -> Result<std::path::PathBuf, String> {
    let read = |model: &str| {
        fs::read(root.join(model).join(file))
            .map_err(|error| format!("assets/pocket/{model}/{file}: {error}"))
    };
    let base = match words::base(model) {
        None => None,
        Some(base) => Some(words::pack(&read(base)?, None)),
    };
    let out = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let out = Path::new(&out).join(format!("{model}.packed"));
    fs::write(&out, words::pack(&read(model)?, base.as_deref()))
        .map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(out)
}
