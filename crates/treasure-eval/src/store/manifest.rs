//! What a run was: its plan, the versions that ran it, and hashes of the models and data it used.
//!
//! Guarantee: two manifests have the same fingerprint exactly when their runs must give the same rows.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Error, Result,
    error::{PAGE, at},
    plan::{Plan, hex},
};

/// A model or data file with its content hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelHash {
    /// The name it was asked for by.
    pub name: String,
    /// SHA-256 over its files.
    pub sha256: String,
}

/// The head of a run store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of the store.
    pub format: u32,
    /// The version of treasure.
    pub version: String,
    /// SHA-256 of the plan.
    pub plan_hash: String,
    /// Models, judges and data.
    pub hashes: Vec<ModelHash>,
    /// The whole plan.
    pub plan: Plan,
}

const FORMAT: u32 = 1;

impl Manifest {
    /// The manifest of a plan on given models.
    pub fn new(plan: Plan, mut hashes: Vec<ModelHash>) -> Self {
        hashes.sort_by(|a, b| a.name.cmp(&b.name));
        hashes.dedup();
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").into(),
            plan_hash: plan.hash(),
            hashes,
            plan,
        }
    }

    /// Sixteen hexadecimal digits over plan, version and hashes: what every row carries.
    pub fn fingerprint(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(format!("{} {} {}\n", self.format, self.version, self.plan_hash));
        for hash in &self.hashes {
            digest.update(format!("{} {}\n", hash.name, hash.sha256));
        }
        hex(&digest.finalize()[..8])
    }

    /// The manifest as a file holds it.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest has only string keys") + "\n"
    }

    /// Reads a folder's manifest.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join("manifest.json");
        let text = fs::read_to_string(&path).map_err(at(&path, "reading"))?;
        let manifest: Self = serde_json::from_str(&text).map_err(|error| Error::Config {
            name: path.display().to_string(),
            message: error.to_string(),
            hint: PAGE.into(),
        })?;
        let hash = manifest.plan.hash();
        if manifest.plan_hash != hash {
            return Err(Error::OtherPlan {
                path,
                expected: hash,
                found: manifest.plan_hash,
                difference: "the plan was changed after the run began".into(),
            });
        }
        // A method that this version does not have is refused here, not guessed at later.
        let plan = &manifest.plan;
        for reward in (0..plan.rewards.len()).map(Some).chain([None]) {
            plan.variants.iter().try_for_each(|variant| plan.asked(variant, reward).map(drop))?;
        }
        Ok(manifest)
    }

    /// Writes the manifest, or checks that the one that is there is this run's.
    ///
    /// Several shards may start at once: the file appears whole or not at all, and the first wins.
    pub fn create_or_match(&self, directory: &Path) -> Result<()> {
        let path = directory.join("manifest.json");
        if !path.exists() {
            let text = self.text();
            let draft = directory.join(format!("manifest.json.{}", std::process::id()));
            let write = || {
                let mut file = fs::File::create(&draft)?;
                file.write_all(text.as_bytes())?;
                file.sync_all()
            };
            write().map_err(at(&draft, "writing"))?;
            // A hard link fails when the name is taken, a rename would overwrite it.
            let linked = fs::hard_link(&draft, &path);
            fs::remove_file(&draft).map_err(at(&draft, "removing"))?;
            match linked {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&path, "writing")(error)),
            }
        }
        let found = Self::read(directory)?;
        if found.fingerprint() == self.fingerprint() {
            return Ok(());
        }
        Err(Error::OtherPlan {
            path: directory.into(),
            expected: self.fingerprint(),
            found: found.fingerprint(),
            difference: self.difference(&found),
        })
    }

    /// The first few places where two manifests differ, for people.
    pub fn difference(&self, other: &Self) -> String {
        let json = |manifest: &Self| serde_json::to_value(manifest).expect("a manifest is JSON");
        let mut places = Vec::new();
        differ("", &json(other), &json(self), &mut places);
        places.retain(|place| !place.starts_with("plan_hash"));
        let more = places.len().saturating_sub(3);
        places.truncate(3);
        let mut text = places.join("; ");
        if more > 0 {
            text += &format!("; and {more} more");
        }
        text
    }
}

fn differ(place: &str, old: &serde_json::Value, new: &serde_json::Value, out: &mut Vec<String>) {
    use serde_json::Value::{Array, Object};
    let join = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match (old, new) {
        _ if old == new => {}
        (Object(a), Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().zip(b.values()).for_each(|((key, x), y)| differ(&join(key), x, y, out));
        }
        (Array(a), Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.for_each(|(i, (x, y))| differ(&join(&i.to_string()), x, y, out));
        }
        (Array(a), Array(b)) => out.push(format!("{place}: {} entries, now {}", a.len(), b.len())),
        _ => out.push(format!("{place}: {old}, now {new}")),
    }
}

/// A model's card says things about it and is no part of it: a word more there leaves the hash as it is.
pub(super) const CARD: &str = "README.md";

/// SHA-256 over the files of a directory but its card: names, lengths and contents, in name order.
pub fn hash_directory(directory: &Path) -> Result<String> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory, "reading"))? {
        let path = entry.map_err(at(directory, "reading"))?.path();
        if path.is_file() && path.file_name().is_some_and(|name| name != CARD) {
            files.push(path);
        }
    }
    files.sort();
    let mut digest = Sha256::new();
    for path in files {
        let bytes = fs::read(&path).map_err(at(&path, "reading"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        digest.update(format!("{name} {}\n", bytes.len()));
        digest.update(&bytes);
    }
    Ok(hex(&digest.finalize()))
}
