//! From what a user writes (`pocket`, a path, `org/name@revision`) to a [`Source`].

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{EmbeddedFiles, HubRepo, Source, hub::default_cache};
use crate::{Error, Result};

/// Files of the binary that are made ready when somebody asks for them.
#[derive(Clone)]
struct Embedded(Arc<dyn Fn() -> EmbeddedFiles + Send + Sync>);

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded")
    }
}

/// Maps model names to sources. Embedded sets come first, then paths that exist, then hub ids.
#[derive(Clone, Debug, Default)]
pub struct Resolver {
    embedded: BTreeMap<String, Embedded>,
    cache: Option<PathBuf>,
    offline: bool,
}

impl Resolver {
    /// A resolver that knows no embedded set and takes the hub cache from the environment
    /// (`HF_HUB_CACHE`, `HF_HOME`, `HOME`; `HF_HUB_OFFLINE` keeps it off the network).
    pub fn new() -> Self {
        let offline = std::env::var("HF_HUB_OFFLINE")
            .is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false" | "no"));
        Self {
            embedded: BTreeMap::new(),
            cache: default_cache(|name| std::env::var_os(name).map(PathBuf::from)),
            offline,
        }
    }

    /// Registers files of the binary under a name.
    #[must_use]
    pub fn with_embedded(self, name: impl Into<String>, files: EmbeddedFiles) -> Self {
        self.with_packed(name, move || files)
    }

    /// Registers files of the binary that `unpack` makes ready at their first use; asked again, it gives the
    /// same ones.
    #[must_use]
    pub fn with_packed(
        mut self,
        name: impl Into<String>,
        unpack: impl Fn() -> EmbeddedFiles + Send + Sync + 'static,
    ) -> Self {
        self.embedded.insert(name.into(), Embedded(Arc::new(unpack)));
        self
    }

    /// Uses another hub cache folder.
    #[must_use]
    pub fn with_cache(mut self, cache: impl Into<PathBuf>) -> Self {
        self.cache = Some(cache.into());
        self
    }

    /// Stays off the network.
    #[must_use]
    pub fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// The hub cache folder, if there is one.
    pub fn cache(&self) -> Option<&Path> {
        self.cache.as_deref()
    }

    /// The names of the embedded sets.
    pub fn embedded(&self) -> impl Iterator<Item = &str> {
        self.embedded.keys().map(String::as_str)
    }

    /// The hub ids in the cache, sorted.
    pub fn cached(&self) -> Vec<String> {
        let Some(listing) = self.cache.as_ref().and_then(|cache| std::fs::read_dir(cache).ok())
        else {
            return Vec::new();
        };
        let mut ids: Vec<String> = listing
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| Some(name.strip_prefix("models--")?.replace("--", "/")))
            .collect();
        ids.sort();
        ids
    }

    /// The source of a model. `revision` pins a hub id and may also be written `id@revision`.
    pub fn resolve(&self, spec: &str, revision: Option<&str>) -> Result<Source> {
        if let Some(Embedded(unpack)) = self.embedded.get(spec) {
            return Ok(Source::Embedded { name: spec.to_owned(), files: unpack() });
        }
        let path = Path::new(spec);
        if path.is_dir() {
            return Ok(Source::Directory(path.to_owned()));
        }
        if path.is_file() {
            return if path.extension().is_some_and(|ext| ext == "gguf") {
                Ok(Source::File(path.to_owned()))
            } else {
                Err(Error::expected(spec, "a directory or a .gguf file", "another file")
                    .with_hint("pass the directory that holds config.json and the weights"))
            };
        }
        let (id, pinned) = match spec.split_once('@') {
            Some((id, pinned)) => (id, Some(pinned)),
            None => (spec, None),
        };
        if !is_hub_id(id) {
            return Err(Error::missing(format!("{spec}: no such file or directory")).with_hint(format!(
                "a model is {}a directory, a .gguf file or a hub id such as org/name[@revision]",
                self.embedded.keys().map(|name| format!("{name}, ")).collect::<String>()
            )));
        }
        let revision = match (pinned, revision) {
            (Some(a), Some(b)) if a != b => {
                return Err(Error::expected(spec, format!("revision {b}"), a));
            }
            (a, b) => a.or(b).unwrap_or("main"),
        };
        if revision.is_empty() || !is_plain(revision) {
            return Err(Error::expected(spec, "a branch, tag or commit behind @", revision));
        }
        Ok(Source::Hub(HubRepo {
            id: id.to_owned(),
            revision: revision.to_owned(),
            cache: self.cache.clone(),
            offline: self.offline,
            unreachable: Default::default(),
        }))
    }
}

/// `name` or `org/name` of letters, digits, `-`, `_` and `.`, as the hub allows them.
fn is_hub_id(id: &str) -> bool {
    let parts: Vec<&str> = id.split('/').collect();
    parts.len() <= 2
        && !id.ends_with(".gguf")
        && parts.iter().all(|part| {
            !part.is_empty()
                && !part.starts_with(['.', '~', '-'])
                && !part.contains("..")
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        })
}

/// No part of a revision may climb out of the cache.
fn is_plain(revision: &str) -> bool {
    revision.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !revision.contains(['\\', '\0'])
        && !revision.starts_with('/')
}
