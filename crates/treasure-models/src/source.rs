//! Where a checkpoint's files come from: a directory, one GGUF file, the hub, or the binary itself.

mod blob;
pub(crate) mod hub;
mod mapping;
mod resolver;

use std::path::PathBuf;

pub use blob::Blob;
pub use hub::HubRepo;
pub(crate) use mapping::Mapping;
pub use resolver::Resolver;

use crate::{Error, Result};

/// Files embedded in the binary: name and content.
pub type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

/// A place that holds the files of one model.
#[derive(Clone, Debug)]
pub enum Source {
    /// A directory in Hugging Face layout.
    Directory(PathBuf),
    /// One GGUF file.
    File(PathBuf),
    /// A repository of the hub.
    Hub(HubRepo),
    /// Files that are part of the binary.
    Embedded {
        /// The name it was registered under.
        name: String,
        /// Its files.
        files: EmbeddedFiles,
    },
}

impl Source {
    /// The name for messages.
    pub fn name(&self) -> String {
        match self {
            Self::Directory(path) | Self::File(path) => path.display().to_string(),
            Self::Hub(repo) => format!("{}@{}", repo.id, repo.revision),
            Self::Embedded { name, .. } => name.clone(),
        }
    }

    /// Opens a file, or says that this source has none of that name.
    pub fn open(&self, file: &str) -> Result<Option<Blob>> {
        match self {
            Self::Directory(path) => {
                let path = path.join(file);
                if path.is_file() { Blob::open(&path).map(Some) } else { Ok(None) }
            }
            Self::File(path) => {
                let own = path.file_name().is_some_and(|name| name == file);
                if own { Blob::open(path).map(Some) } else { Ok(None) }
            }
            Self::Hub(repo) => repo.open(file),
            Self::Embedded { name, files } => Ok(files
                .iter()
                .find(|(own, _)| *own == file)
                .map(|(own, bytes)| Blob::embedded(format!("{name}/{own}"), bytes))),
        }
    }

    /// Opens a file that must exist.
    pub fn require(&self, file: &str) -> Result<Blob> {
        self.open(file)?.ok_or_else(|| self.missing(file))
    }

    /// The error for a file that is not there.
    pub(crate) fn missing(&self, file: &str) -> Error {
        match self {
            Self::Hub(repo) => Error::missing(format!(
                "{file} of {}@{}: is not in the hub cache{}",
                repo.id,
                repo.revision,
                if repo.offline { " and the network is off" } else { " and not on the hub" }
            ))
            .with_hint(repo.how_to_go_on()),
            _ => Error::missing(format!("{}: has no {file}", self.name())),
        }
    }

    /// The one GGUF file of this source, if it is a GGUF model: a file, or a directory without
    /// `config.json` that holds exactly one.
    pub(crate) fn gguf(&self) -> Result<Option<Blob>> {
        match self {
            Self::File(path) => Blob::open(path).map(Some),
            Self::Directory(path) if !path.join("config.json").is_file() => {
                let listing = std::fs::read_dir(path).map_err(|source| {
                    Error::unreachable(format!("{}: cannot be listed", path.display()))
                        .with_source(source)
                })?;
                let mut found: Vec<PathBuf> = listing
                    .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                    .filter(|path| path.extension().is_some_and(|ext| ext == "gguf"))
                    .collect();
                found.sort();
                match &found[..] {
                    [] => Ok(None),
                    [one] => Blob::open(one).map(Some),
                    many => Err(Error::expected(
                        path.display(),
                        "one GGUF file",
                        format!("{} of them", many.len()),
                    )
                    .with_hint("pass the path of the file itself")),
                }
            }
            _ => Ok(None),
        }
    }
}
